"""Who and what is there: teams, people, channels, messages, and the ids of them all."""

import itertools
import time
from collections.abc import Iterable
from copy import deepcopy

from bot.values import Json
from tests.fakes.slack.limits import check_ts
from tests.fakes.slack.messages import Channel, ChannelKind, Message
from tests.fakes.slack.shapes import File, Grant, SlackError, Team, User
from tests.fakes.slack.texts import Names

#: What our manifest should ask for.
SCOPES = (
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:write",
    "mpim:history",
    "mpim:read",
    "reactions:write",
    "search:read.public",
    "usergroups:read",
    "users:read",
)


class World:
    """Everything that is there, by id."""

    def __init__(self) -> None:
        self.teams: dict[str, Team] = {}
        self.users: dict[str, User] = {}
        self.channels: dict[str, Channel] = {}
        self.files: dict[str, File] = {}
        self.grants: dict[str, Grant] = {}
        self.ephemerals: list[Message] = []
        self.groups: dict[str, str] = {}
        #: The ids of the members of each user group, by the ids of its team and its own.
        self.group_members: dict[tuple[str, str], set[str]] = {}
        self.user_names: dict[str, str] = {}
        self.most_history = 1_000
        self.names = Names(self.user_names, self.groups)
        self._numbers = itertools.count(1)
        self._last_ts = 0

    # --- ids ------------------------------------------------------------------------------------

    def new_id(self, letter: str) -> str:
        return f"{letter}0{next(self._numbers):07d}"

    def new_ts(self) -> str:
        """Return the id of a new message: the time, never the same twice."""
        self._last_ts = max(self._last_ts + 1, time.time_ns() // 1000)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    # --- making ---------------------------------------------------------------------------------

    def add_team(self, name: str, *, enterprise: str = "") -> Team:
        team = Team(self.new_id("T"), name, enterprise)
        self.teams[team.id] = team
        team.bot = self.add_user("retinue", team, bot=True)
        return team

    def add_user(self, name: str, team: Team, *, bot: bool = False) -> User:
        user = User(self.new_id("U"), name, team, self.new_id("B") if bot else "")
        self.users[user.id] = user
        self.user_names[user.id] = name
        return user

    def add_channel(
        self, name: str, kind: ChannelKind, team: Team, members: Iterable[User]
    ) -> Channel:
        letter = {"channel": "C", "group": "C", "im": "D", "mpim": "G"}[kind]
        ids = {member.id for member in members}
        channel = Channel(self.new_id(letter), name, kind, team, ids)
        self.channels[channel.id] = channel
        return channel

    def grant(self, team: Team, *, org_wide: bool = False, scopes: Iterable[str] = SCOPES) -> Grant:
        """Install our app, with a new token; an older one stays good, as with Slack."""
        token = f"xoxb-{team.id}-{next(self._numbers)}"
        covered = None if org_wide else team
        grant = Grant(token, team.bot, list(scopes), covered, team.enterprise)
        self.grants[token] = grant
        for other in self.teams.values():
            if grant.covers(other):
                other.grant = grant
                other.bot = team.bot
        return grant

    def dm(self, user: User) -> Channel:
        """Return the direct messages between a user and our bot."""
        for channel in self.channels.values():
            if channel.kind == "im" and channel.members == {user.id, user.team.bot.id}:
                return channel
        return self.add_channel(user.name, "im", user.team, [user, user.team.bot])

    def add_message(self, channel: Channel, user: User, *, thread_ts: str = "") -> Message:
        message = Message(channel, self.new_ts(), user, self.names, thread_ts=thread_ts)
        channel.messages[message.ts] = message
        return message

    def add_ephemeral(self, channel: Channel, viewer: User) -> Message:
        """Make a message that one user sees, and that nobody finds again."""
        message = Message(channel, self.new_ts(), viewer.team.bot, self.names)
        message.visible_to = viewer.id
        self.ephemerals.append(message)
        return message

    def add_file(self, name: str, mimetype: str, user: User, base: str) -> File:
        id_ = self.new_id("F")
        url = f"{base}/files-pri/{user.team.id}-{id_}"
        self.files[id_] = File(id_, name, mimetype, user.id, user.team.id, url)
        return self.files[id_]

    # --- finding --------------------------------------------------------------------------------

    def user(self, id_: object) -> User:
        """Return a user.

        Raises:
            SlackError: There is none.
        """
        if id_ not in self.users:
            raise SlackError("user_not_found")
        return self.users[str(id_)]

    def channel(self, named: object, grant: Grant) -> Channel:
        """Return a channel that this installation knows.

        Args:
            named: An id, a name with or without `#`, or a user, for the direct messages.
            grant: The installation.

        Raises:
            SlackError: There is none, or it is not to be seen.
        """
        if str(named) in self.users:
            channel = self.dm(self.users[str(named)])
        else:
            name = str(named).removeprefix("#")
            found = [c for c in self.channels.values() if name in {c.id, c.name}]
            if not found:
                raise SlackError("channel_not_found")
            channel = found[0]
        seen = any(grant.covers(team) for team in (channel.team, *channel.shared_with))
        hidden = channel.kind != "channel" and grant.bot.id not in channel.members
        if channel.gone or hidden or not seen:
            raise SlackError("channel_not_found")
        return channel

    def writable(self, named: object, grant: Grant) -> Channel:
        """Return a channel that this installation may write to.

        Raises:
            SlackError: There is none, it is archived, or the bot is not in it.
        """
        channel = self.channel(named, grant)
        if channel.archived:
            raise SlackError("is_archived")
        if grant.bot.id not in channel.members:
            raise SlackError("not_in_channel")
        return channel

    def root_of(self, channel: Channel, thread_ts: object) -> str:
        """Return the root of a thread that may be written to; empty for none.

        Raises:
            SlackError: It is no id of a message, there is none, or it is itself a reply (which
                Slack takes, and then shows in no thread).
        """
        if not thread_ts:
            return ""
        check_ts(thread_ts)
        root = channel.messages.get(str(thread_ts))
        if root is None or root.deleted:
            raise SlackError("thread_not_found")
        if root.thread_ts:
            raise SlackError("cannot_reply_to_message")
        return root.ts

    def message(self, channel: Channel, ts: object) -> Message:
        """Return a message that everybody in the channel sees.

        Raises:
            SlackError: There is none.
        """
        message = channel.messages.get(str(ts))
        if message is None or message.deleted:
            raise SlackError("message_not_found")
        return message

    def with_ids(self, blocks: list[Json]) -> list[Json]:
        """Return blocks with ids for whatever has none, as Slack keeps them."""
        kept = deepcopy(blocks)
        for block in kept:
            block.setdefault("block_id", self.new_id("b"))
            for element in (
                *block.get("elements", ()),
                block.get("accessory"),
                block.get("element"),
            ):
                if isinstance(element, dict) and element.get("type") not in _STILL:
                    element.setdefault("action_id", self.new_id("a"))
        return kept


_STILL = {"plain_text", "mrkdwn", "image", "rich_text_section", "rich_text_list", None} | {
    "rich_text_quote",
    "rich_text_preformatted",
}
