"""Instructions for Discord's developer portal, and the problems that wrong settings cause."""

import discord

PORTAL = "https://discord.com/developers/applications"

#: The permissions that the bot needs in a server.
PERMISSIONS = discord.Permissions(
    view_channel=True,  # to receive mentions
    send_messages=True,  # to answer in channels
    send_messages_in_threads=True,
    create_public_threads=True,  # to open a thread for a mention
    attach_files=True,  # to send files, and answers that are too long for messages
    read_message_history=True,  # to read what stands above a mention, and to reply
    add_reactions=True,  # to acknowledge messages with 👀, and to show with ✅ what was read
)


def page(application_id: int | str, name: str) -> str:
    """Return the address of a page of this application's settings, such as `bot`."""
    return f"{PORTAL}/{application_id}/{name}"


def invite_url(application_id: int | str) -> str:
    """Return the address for adding the bot to a server with exactly the needed permissions."""
    scopes = ("bot", "applications.commands")
    return discord.utils.oauth_url(application_id, permissions=PERMISSIONS, scopes=scopes)


def without_content(application_id: int | str) -> str:
    """Return the notice about a missing message-content intent: its effect and the fix."""
    return (
        "Discord gives this bot the text of messages only where it is mentioned and in direct "
        "messages: in threads it does not receive messages without a mention. To change that, "
        f"open {page(application_id, 'bot')}, switch on Message Content Intent, press Save "
        "Changes, and start the bot again."
    )


TOKEN_REFUSED = (
    "Discord refuses the token: it was reset, or is not a bot token. Open "
    f"{PORTAL}, choose the application, press Reset Token on its page Bot, and put the new token "
    "into DISCORD_TOKEN (or `discord.token`)."
)


#: Reasons and fixes by the close code of the gateway, after which it accepts no further connection
#: with this configuration.
_REFUSED_INTENTS = (
    "Discord refuses what this bot wants to receive (its intents). Open {page}, switch on Message "
    "Content Intent, press Save Changes, and start the bot again."
)
_CLOSED = {
    4004: TOKEN_REFUSED,
    4010: "Discord does not know one of these shards: `discord.shard_ids` must be counted from 0 "
    "and be below `discord.shard_count`.",
    4011: "The bot is in too many servers for one connection: set `discord.shard_count` (one shard "
    "for every 1,000 servers is usual).",
    4012: "Discord no longer speaks the version of its protocol that this bot uses: install a "
    "newer bot.",
    4013: _REFUSED_INTENTS,
    4014: _REFUSED_INTENTS,
}
_UNKNOWN_CODE = (
    "Discord closed the connection with the code {code} and wants no other. Its meaning stands in "
    "Discord's documentation under “Gateway Close Event Codes”."
)
FATAL = frozenset(_CLOSED)


def closed_for_good(code: int, application_id: int | str) -> str:
    """Return the reason for a fatal close code of the gateway, and the fix."""
    text = _CLOSED.get(code, _UNKNOWN_CODE)
    return text.format(code=code, page=page(application_id, "bot"))
