"""Lists the scopes and events that the bot needs, each with its purpose (no SDK)."""

from typing import NamedTuple


class Need(NamedTuple):
    """A scope or an event.

    Attributes:
        name: Slack's name of the scope or event.
        use: The purpose.
    """

    name: str
    use: str


SCOPES = (
    Need("app_mentions:read", "to receive mentions"),
    Need("assistant:write", "to be an agent, and to show “is thinking…”"),
    Need("channels:history", "to receive the other messages of a thread in public channels"),
    Need("chat:write", "to answer, to edit its messages, and to show Slack's own Stop"),
    Need("commands", "to have slash commands"),
    Need("files:read", "to read attached files"),
    Need("files:write", "to send texts that are too long for messages"),
    Need("groups:history", "to receive the other messages of a thread in private channels"),
    Need("im:history", "to receive direct messages"),
    Need("im:write", "to send a direct message when no other place accepts it"),
    Need("mpim:history", "to receive the other messages of a thread in group conversations"),
    Need("reactions:write", "to acknowledge messages with 👀, where “is thinking…” is not shown"),
    Need("users:read", "to know the names of users"),
)

EVENTS = (
    Need("agent_session_stopped", "a user clicked Slack's own Stop"),
    Need("app_home_opened", "a user opened the Home tab"),
    Need("app_mention", "a user mentioned the bot"),
    Need("app_uninstalled", "a workspace removed the bot"),
    Need("message.channels", "a message was sent in a public channel"),
    Need("message.groups", "the same in a private channel"),
    Need("message.im", "the same in a direct message"),
    Need("message.mpim", "the same in a group conversation"),
    Need("tokens_revoked", "a workspace took the bot's token away"),
)

#: The exact scopes and events of `deploy/slack-manifest.yaml` and of installations.
BOT_SCOPES: tuple[str, ...] = tuple(need.name for need in SCOPES)
BOT_EVENTS: tuple[str, ...] = tuple(need.name for need in EVENTS)
