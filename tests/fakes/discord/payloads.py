"""What Discord says about things, as JSON."""

from datetime import UTC, datetime

from bot.values import Json
from tests.fakes.discord.things import (
    Channel,
    File,
    Guild,
    Kind,
    Member,
    Message,
    Role,
    User,
    bits,
)

EPOCH_MS = 1420070400000
FILE_LIMIT = 10 * 1024 * 1024


def time_of(snowflake: int) -> str:
    """Return when something was made."""
    seconds = ((snowflake >> 22) + EPOCH_MS) / 1000
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def user_json(user: User) -> Json:
    """Return somebody as they are everywhere."""
    return {
        "id": str(user.id),
        "username": user.name,
        "global_name": user.name.title(),
        "discriminator": "0",
        "avatar": None,
        "bot": user.bot,
        "public_flags": 0,
    }


def member_json(member: Member, *, permissions: int | None = None, user: bool = True) -> Json:
    """Return somebody as they are in a server."""
    found: Json = {
        "nick": None,
        "avatar": None,
        "roles": [str(role.id) for role in member.roles],
        "joined_at": "2026-01-01T00:00:00+00:00",
        "premium_since": None,
        "communication_disabled_until": None,
        "deaf": False,
        "mute": False,
        "pending": False,
        "flags": 0,
    }
    if user:
        found["user"] = user_json(member.user)
    if permissions is not None:
        found["permissions"] = str(permissions)
    return found


def role_json(role: Role) -> Json:
    """Return a role."""
    return {
        "id": str(role.id),
        "name": role.name,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "icon": None,
        "unicode_emoji": None,
        "position": role.position,
        "permissions": str(role.permissions),
        "managed": False,
        "mentionable": role.mentionable,
        "flags": 0,
    }


def channel_json(channel: Channel, bot: User) -> Json:
    """Return a channel of any kind."""
    found: Json = {
        "id": str(channel.id),
        "type": int(channel.kind),
        "name": channel.name,
        "flags": 0,
        "last_message_id": str(max(channel.messages)) if channel.messages else None,
    }
    if channel.guild is None:
        assert channel.recipient is not None
        return found | {"recipients": [user_json(channel.recipient)]}
    found |= {
        "guild_id": str(channel.guild.id),
        "parent_id": str(channel.parent.id) if channel.parent else None,
        "rate_limit_per_user": 0,
        "nsfw": False,
    }
    return found | (_thread(channel, bot) if channel.kind.is_thread else _room(channel, bot))


def _room(channel: Channel, bot: User) -> Json:
    overwrites: list[Json] = []
    view = str(bits("view_channel"))
    if channel.readers is not None:
        assert channel.guild is not None
        everyone = {"id": str(channel.guild.id), "type": 0, "allow": "0", "deny": view}
        readers = [
            {"id": str(each), "type": 1, "allow": view, "deny": "0"} for each in channel.readers
        ]
        overwrites = [everyone, *readers]
    if channel.denied or channel.readers is not None:
        allowed = "0" if channel.readers is None else view
        own = {"id": str(bot.id), "type": 1, "allow": allowed, "deny": str(channel.denied)}
        overwrites.append(own)
    overwrites += [
        {"id": str(each), "type": 1, "allow": "0", "deny": view} for each in channel.shut_out
    ]
    room: Json = {
        "position": channel.position,
        "permission_overwrites": overwrites,
        "topic": None,
    }
    if channel.kind is Kind.VOICE:
        room |= {"bitrate": 64000, "user_limit": 0, "rtc_region": None}
    if channel.kind is Kind.FORUM:
        room |= {"available_tags": [], "default_reaction_emoji": None, "default_sort_order": None}
    return room


def _thread(channel: Channel, bot: User) -> Json:
    assert channel.owner is not None
    made = time_of(channel.id)
    return {
        "owner_id": str(channel.owner.id),
        "message_count": len(channel.messages),
        "total_message_sent": len(channel.messages),
        "member_count": 1,
        "applied_tags": [],
        "thread_metadata": {
            "archived": channel.archived,
            "locked": channel.locked,
            "auto_archive_duration": channel.auto_archive,
            "archive_timestamp": made,
            "create_timestamp": made,
        },
        "member": {
            "id": str(channel.id),
            "user_id": str(bot.id),
            "join_timestamp": made,
            "flags": 0,
        },
    }


def guild_json(guild: Guild, channels: list[Channel], *, counts: bool = False) -> Json:
    """Return a server as the gateway tells it, or as it is asked for (`counts`)."""
    found: Json = {
        "id": str(guild.id),
        "name": guild.name,
        "owner_id": str(guild.owner.id),
        "icon": None,
        "splash": None,
        "discovery_splash": None,
        "banner": None,
        "description": None,
        "afk_channel_id": None,
        "afk_timeout": 300,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "roles": [role_json(role) for role in guild.roles.values()],
        "emojis": [],
        "stickers": [],
        "features": [],
        "mfa_level": 0,
        "system_channel_id": None,
        "system_channel_flags": 0,
        "rules_channel_id": None,
        "public_updates_channel_id": None,
        "safety_alerts_channel_id": None,
        "vanity_url_code": None,
        "premium_tier": 0,
        "premium_subscription_count": 0,
        "preferred_locale": "en-US",
        "nsfw_level": 0,
        "premium_progress_bar_enabled": False,
    }
    if counts:
        number = len(guild.members)
        return found | {"approximate_member_count": number, "approximate_presence_count": number}
    return found | _inside(guild, channels)


def _inside(guild: Guild, channels: list[Channel]) -> Json:
    rooms = [channel for channel in channels if not channel.kind.is_thread]
    threads = [each for each in channels if each.kind.is_thread and not each.archived]
    return {
        "joined_at": "2026-01-01T00:00:00+00:00",
        "large": False,
        "unavailable": False,
        "member_count": len(guild.members),
        "members": [member_json(guild.members[guild.bot.id])],
        "channels": [channel_json(channel, guild.bot) for channel in rooms],
        "threads": [channel_json(channel, guild.bot) for channel in threads],
        "voice_states": [],
        "presences": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
    }


def file_json(file: File, channel: Channel, files_url: str) -> Json:
    """Return a file of a message."""
    url = f"{files_url}/attachments/{channel.id}/{file.id}/{file.name}"
    found: Json = {
        "id": str(file.id),
        "filename": file.name,
        "size": len(file.content),
        "url": url,
        "proxy_url": url,
        "flags": 0,
    }
    if file.media_type:
        found["content_type"] = file.media_type
    if file.description:
        found["description"] = file.description
    return found


def message_json(message: Message, bot: User, files_url: str) -> Json:
    """Return a message."""
    channel = message.channel
    files = [file_json(file, channel, files_url) for file in message.attachments]
    found: Json = {
        "id": str(message.id),
        "channel_id": str(channel.id),
        "author": user_json(message.author),
        "content": message.content,
        "timestamp": time_of(message.id),
        "edited_timestamp": time_of(message.id) if message.edits else None,
        "tts": False,
        "mention_everyone": "everyone" in message.pings,
        "mentions": [user_json(user) for user in message.mentions],
        "mention_roles": _roles(message),
        "attachments": files,
        "embeds": message.embeds,
        "components": message.components,
        "pinned": False,
        "type": message.kind,
        "flags": message.flags,
    }
    if message.forwards:
        found["message_snapshots"] = [_snapshot(text, message) for text in message.forwards]
    if message.nonce:
        found["nonce"] = message.nonce
    if message.reactions:
        found["reactions"] = [
            reaction_json(emoji, users, bot) for emoji, users in message.reactions.items()
        ]
    if message.webhook:
        found["webhook_id"] = str(message.author.id)
    if message.interaction:
        found["application_id"] = found["webhook_id"] = str(bot.id)
    if message.reference:
        found |= _reference(message, bot, files_url)
    if message.thread:
        found["thread"] = channel_json(message.thread, bot)
    return found


def _snapshot(text: str, message: Message) -> Json:
    """Return the part of a forwarded message that Discord shows."""
    sent_at = time_of(message.id)
    shown: Json = {"type": 0, "content": text, "timestamp": sent_at, "edited_timestamp": None}
    lists = ("attachments", "embeds", "components", "mentions", "mention_roles")
    return {"message": shown | {"flags": 0} | {name: [] for name in lists}}


def _reference(message: Message, bot: User, files_url: str) -> Json:
    answered = message.answered
    channel = answered.channel if answered else message.channel
    reference: Json = {
        "type": 0,
        "message_id": str(message.reference),
        "channel_id": str(channel.id),
        "fail_if_not_exists": True,
    }
    if channel.guild:
        reference["guild_id"] = str(channel.guild.id)
    found = message_json(answered, bot, files_url) if answered else None
    if found:
        found.pop("referenced_message", None)
        found.pop("thread", None)
    return {"message_reference": reference, "referenced_message": found}


def _roles(message: Message) -> list[str]:
    roles = message.channel.guild.roles if message.channel.guild else {}
    return [str(each) for each in message.pings if each in roles]


def reaction_json(emoji: str, users: list[int], bot: User) -> Json:
    """Return how often a message was given an emoji."""
    return {
        "emoji": {"id": None, "name": emoji},
        "count": len(users),
        "count_details": {"burst": 0, "normal": len(users)},
        "me": bot.id in users,
        "me_burst": False,
        "burst_colors": [],
    }


def said_json(message: Message, bot: User, files_url: str) -> Json:
    """Return a message as the gateway tells it: with what its people are in that server."""
    found, guild = message_json(message, bot, files_url), message.channel.guild
    found["channel_type"] = int(message.channel.kind)
    if guild is None:
        return found
    found["guild_id"] = str(guild.id)
    if (author := guild.members.get(message.author.id)) and not message.webhook:
        found["member"] = member_json(author, user=False)
    for mention in found["mentions"]:
        if member := guild.members.get(int(mention["id"])):
            mention["member"] = member_json(member, user=False)
    return found


def without_content(message: Json) -> Json:
    """Return a message as a bot gets it that may not read it."""
    return message | {"content": "", "embeds": [], "attachments": [], "components": []}
