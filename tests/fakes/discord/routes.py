"""What can be asked about people, channels, threads and messages."""

from bot.values import Json
from tests.fakes.discord import posting
from tests.fakes.discord.payloads import (
    channel_json,
    guild_json,
    member_json,
    message_json,
    user_json,
)
from tests.fakes.discord.refusals import Refusal, invalid, too_long
from tests.fakes.discord.rest import Call, Route
from tests.fakes.discord.things import Channel, Kind, Message

ARCHIVE_MINUTES = {60, 1440, 4320, 10080}


def _message(call: Call) -> Message:
    return call.world.message(call.id("channel"), call.id("message"))


def _shown(call: Call, message: Message) -> Json:
    return message_json(message, call.world.bot, call.world.files_url)


# -- messages --------------------------------------------------------------------------------------


def send(call: Call) -> Json:
    channel = call.world.channel(call.id("channel"))
    letter = posting.Letter(call.world.bot, call.json, call.sent.files)
    return _shown(call, posting.send(call.world, channel, letter))


def edit(call: Call) -> Json:
    message = _message(call)
    posting.edit(call.world, message, call.json, call.sent.files)
    return _shown(call, message)


def delete(call: Call) -> None:
    message = _message(call)
    if message.author is not call.world.bot and not call.world.may(
        message.channel, "manage_messages"
    ):
        raise Refusal(50013)
    # The one thing that may be done in an archived thread, unless it is locked.
    if message.channel.archived and message.channel.locked:
        raise Refusal(50083)
    posting.remove(call.world, message)


def fetch(call: Call) -> Json:
    message = _message(call)
    if not call.world.may(message.channel, "read_message_history"):
        raise Refusal(50001)
    return _shown(call, message)


def history(call: Call) -> list[Json]:
    channel = call.world.channel(call.id("channel"))
    found = sorted(channel.messages.values(), key=lambda each: each.id, reverse=True)
    if before := call.sent.query.get("before"):
        found = [each for each in found if each.id < int(before)]
    if after := call.sent.query.get("after"):
        found = [each for each in found if each.id > int(after)]
    if around := call.sent.query.get("around"):
        near = sorted(found, key=lambda each: abs(each.id - int(around)))
        near = near[: int(call.sent.query.get("limit", 50))]
        found = sorted(near, key=lambda each: each.id, reverse=True)
    return [_shown(call, each) for each in found[: int(call.sent.query.get("limit", 50))]]


def react(call: Call) -> None:
    message, emoji = _message(call), call.ids["emoji"]
    needed = "read_message_history"
    if emoji not in message.reactions:
        needed += " add_reactions"
    if not call.world.may(message.channel, needed):
        raise Refusal(50013)
    if message.channel.archived:
        raise Refusal(50083)
    if emoji.isascii() and ":" not in emoji:
        raise Refusal(10014)
    posting.react(call.world, message, emoji, call.world.bot)


def unreact(call: Call) -> None:
    message, emoji = _message(call), call.ids["emoji"]
    if emoji not in message.reactions:
        raise Refusal(10014)
    posting.react(call.world, message, emoji, call.world.bot, add=False)


def typing(call: Call) -> None:
    channel = call.world.channel(call.id("channel"))
    if not call.world.may(channel, _to_send_in(channel)):
        raise Refusal(50013)
    channel.typing += 1


def _to_send_in(channel: Channel) -> str:
    return "send_messages_in_threads" if channel.kind.is_thread else "send_messages"


# -- channels and threads --------------------------------------------------------------------------


def channel(call: Call) -> Json:
    return channel_json(call.world.channel(call.id("channel")), call.world.bot)


def change_channel(call: Call) -> Json:
    found = call.world.channel(call.id("channel"))
    if found.kind.is_thread and found.owner is not call.world.bot:
        if not call.world.may(found, "manage_threads"):
            raise Refusal(50013)
    elif not found.kind.is_thread and not call.world.may(found, "manage_channels"):
        raise Refusal(50013)
    found.name = call.json.get("name", found.name)
    found.archived = call.json.get("archived", found.archived)
    found.locked = call.json.get("locked", found.locked)
    call.world.tell_channel(found, "THREAD_UPDATE" if found.kind.is_thread else "CHANNEL_UPDATE")
    return channel_json(found, call.world.bot)


def _check_thread(call: Call, needed: str) -> None:
    if not 1 <= len(call.json.get("name") or "") <= 100:
        raise too_long("name", 100, least=1)
    minutes = call.json.get("auto_archive_duration")
    if minutes is not None and minutes not in ARCHIVE_MINUTES:
        raise invalid("auto_archive_duration", "BASE_TYPE_CHOICES", f"{minutes} is no choice.")
    if not call.world.may(call.world.channel(call.id("channel")), needed):
        raise Refusal(50013)


def open_from_message(call: Call) -> Json:
    start = _message(call)
    if start.channel.kind not in {Kind.TEXT, Kind.NEWS}:
        raise Refusal(50024)
    _check_thread(call, "create_public_threads")
    if start.thread:
        raise Refusal(160004)
    if start.kind not in posting.SAID:
        raise Refusal(50021)
    world = call.world
    thread = posting.open_thread(world, start.channel, world.bot, call.json, start)
    return channel_json(thread, world.bot)


def open_thread(call: Call) -> Json:
    world, parent = call.world, call.world.channel(call.id("channel"))
    if parent.kind is Kind.FORUM:
        return _open_post(call, parent)
    if parent.kind not in {Kind.TEXT, Kind.NEWS}:
        raise Refusal(50024)
    # Without a type Discord makes a private one.
    payload = {"type": 12} | call.json
    private = payload["type"] == Kind.PRIVATE_THREAD
    _check_thread(call, "create_private_threads" if private else "create_public_threads")
    thread = posting.open_thread(world, parent, world.bot, payload)
    if not private:
        said = Message(world.new_id(), parent, world.bot, thread.name, kind=18)
        posting.deliver(world, said)
    return channel_json(thread, world.bot)


def _open_post(call: Call, parent: Channel) -> Json:
    _check_thread(call, "send_messages")
    world = call.world
    thread = posting.open_thread(world, parent, world.bot, call.json)
    letter = posting.Letter(world.bot, call.json.get("message") or {}, call.sent.files)
    first = posting.send(world, thread, letter)
    return channel_json(thread, world.bot) | {"message": _shown(call, first)}


def join_thread(call: Call) -> None:
    if not call.world.channel(call.id("channel")).kind.is_thread:
        raise Refusal(50024)


def thread_member(call: Call) -> Json:
    found = call.world.channel(call.id("channel"))
    if not found.kind.is_thread or call.id("user") not in (found.readers or ()):
        raise Refusal(10013)
    return {
        "id": str(found.id),
        "user_id": str(call.id("user")),
        "join_timestamp": "2026-01-01T00:00:00Z",
        "flags": 0,
    }


def search(call: Call) -> Json:
    """Search with the permissions of the bot, as Discord does."""
    world, guild = call.world, call.world.guild(call.id("guild"))
    if world.search_preparing:
        world.search_preparing -= 1
        return {"code": 110_000, "message": "Index not yet available.", "retry_after": 0}
    asked = call.sent.query
    wanted = {int(each) for each in asked.getall("channel_id", [])}
    found = [
        message
        for channel in world.channels_of(guild)
        if world.may(channel, "view_channel read_message_history")
        if not wanted or {channel.id, channel.room.id} & wanted
        for message in channel.messages.values()
        if asked["content"].lower() in message.content.lower()
    ]
    found = sorted(found, key=lambda each: each.id, reverse=True)[: int(asked.get("limit", 25))]
    threads = {each.channel.id: each.channel for each in found if each.channel.kind.is_thread}
    return {
        "total_results": len(found),
        "messages": [[_shown(call, each) | {"hit": True}] for each in found],
        "threads": [channel_json(each, world.bot) for each in threads.values()],
        "members": [],
    }


def open_dm(call: Call) -> Json:
    user = call.world.users.get(int(call.json["recipient_id"]))
    if user is None:
        raise Refusal(10013)
    if user.bot or user.opening_refused:
        raise Refusal(50007)
    return channel_json(call.world.dm(user), call.world.bot)


# -- people and servers ----------------------------------------------------------------------------


def me(call: Call) -> Json:
    return user_json(call.world.bot) | {"verified": True, "mfa_enabled": True, "email": None}


def user(call: Call) -> Json:
    found = call.world.users.get(call.id("user"))
    if found is None:
        raise Refusal(10013)
    return user_json(found)


def my_guilds(call: Call) -> list[Json]:
    return [
        {"id": str(each.id), "name": each.name, "icon": None, "owner": False, "features": []}
        | {"permissions": str(each.everyone.permissions)}
        for each in call.world.guilds.values()
        if each.has_bot
    ]


def guild(call: Call) -> Json:
    return guild_json(call.world.guild(call.id("guild")), [], counts=True)


def guild_channels(call: Call) -> list[Json]:
    found = call.world.channels_of(call.world.guild(call.id("guild")))
    return [channel_json(each, call.world.bot) for each in found if not each.kind.is_thread]


def member(call: Call) -> Json:
    found = call.world.guild(call.id("guild")).members.get(call.id("user"))
    if found is None:
        raise Refusal(10007 if call.id("user") in call.world.users else 10013)
    return member_json(found)


_MESSAGES = "/channels/{channel}/messages"
_REACTION = _MESSAGES + "/{message}/reactions/{emoji}/@me"

ROUTES = [
    Route("POST", _MESSAGES, send),
    Route("GET", _MESSAGES, history),
    Route("GET", _MESSAGES + "/{message}", fetch),
    Route("PATCH", _MESSAGES + "/{message}", edit),
    Route("DELETE", _MESSAGES + "/{message}", delete),
    Route("PUT", _REACTION, react),
    Route("DELETE", _REACTION, unreact),
    Route("POST", "/channels/{channel}/typing", typing),
    Route("GET", "/channels/{channel}", channel),
    Route("PATCH", "/channels/{channel}", change_channel),
    Route("POST", _MESSAGES + "/{message}/threads", open_from_message),
    Route("POST", "/channels/{channel}/threads", open_thread),
    Route("PUT", "/channels/{channel}/thread-members/@me", join_thread),
    Route("GET", "/channels/{channel}/thread-members/{user}", thread_member),
    Route("POST", "/users/@me/channels", open_dm),
    Route("GET", "/users/@me", me),
    Route("GET", "/users/@me/guilds", my_guilds),
    Route("GET", "/users/{user}", user),
    Route("GET", "/guilds/{guild}", guild),
    Route("GET", "/guilds/{guild}/channels", guild_channels),
    Route("GET", "/guilds/{guild}/messages/search", search),
    Route("GET", "/guilds/{guild}/members/{user}", member),
]
