"""Setting the scene: teams, people and channels of a fake Slack, and what stands in them."""

from collections.abc import Iterable

from tests.fakes.slack.messages import Channel, ChannelKind, Message
from tests.fakes.slack.shapes import Team, User
from tests.fakes.slack.world import World


class Places:
    """Who is where, and what is written there.

    Attributes:
        world: Everything by id.
        team: The workspace that is there from the start, with the app installed.
    """

    def __init__(self) -> None:
        self.world = World()
        self.team = self.world.add_team("Acme")
        self.world.grant(self.team)

    # --- teams and people -----------------------------------------------------------------------

    def add_team(self, name: str, *, enterprise: str = "", installed: bool = False) -> Team:
        """Add a workspace, where the app is not installed unless it is said."""
        team = self.world.add_team(name, enterprise=enterprise)
        if installed:
            self.world.grant(team)
        return team

    def bot_user(self, team: Team | None = None) -> User:
        """Return our bot in a workspace."""
        return (team or self.team).bot

    def add_user(self, name: str, *, team: Team | None = None, bot: bool = False) -> User:
        """Add a user, or somebody else's bot, who joins every public channel of the team."""
        home = team or self.team
        user = self.world.add_user(name, home, bot=bot)
        for channel in self.world.channels.values():
            if channel.kind == "channel" and channel.team is home:
                channel.members.add(user.id)
        return user

    def add_usergroup(self, handle: str) -> str:
        """Add a user group, and return its id."""
        id_ = self.world.new_id("S")
        self.world.groups[id_] = handle
        return id_

    # --- channels -------------------------------------------------------------------------------

    def add_channel(
        self,
        name: str,
        *,
        team: Team | None = None,
        private: bool = False,
        members: Iterable[User] | None = None,
        bot: bool = True,
        shared_with: Iterable[Team] = (),
    ) -> Channel:
        """Add a channel.

        Args:
            name: Without `#`.
            team: Whose it is.
            private: Only members know of it.
            members: Who is in it; by default everybody of the team.
            bot: Whether our bot is in it.
            shared_with: Other teams that share it (Slack Connect).
        """
        home = team or self.team
        people = [u for u in self.world.users.values() if u.team is home and u is not home.bot]
        inside = list(people if members is None else members) + ([home.bot] if bot else [])
        kind: ChannelKind = "group" if private else "channel"
        channel = self.world.add_channel(name, kind, home, inside)
        channel.shared_with = list(shared_with)
        return channel

    def dm(self, user: User) -> Channel:
        """Return the direct messages between a user and the bot."""
        return self.world.dm(user)

    def mpim(self, *users: User) -> Channel:
        """Return a new conversation of several people and the bot."""
        team = users[0].team
        return self.world.add_channel("mpdm", "mpim", team, [*users, team.bot])

    def remove_bot(self, channel: Channel) -> None:
        """Take the bot out of a channel."""
        channel.members.discard(channel.team.bot.id)

    # --- what stands there ----------------------------------------------------------------------

    def messages(self, channel: Channel, thread: Message | str | None = None) -> list[Message]:
        """Return what stands in a channel, threads included, or in one thread with its root."""
        root = thread.root_ts if isinstance(thread, Message) else thread
        return [
            message
            for message in channel.messages.values()
            if not message.deleted and root in {None, message.root_ts}
        ]

    def said(self, channel: Channel, thread: Message | str | None = None) -> list[Message]:
        """Return what the bot has said there, and stands."""
        bots = {team.bot.id for team in self.world.teams.values()}
        return [m for m in self.messages(channel, thread) if m.user.id in bots]

    def ephemerals(self, user: User, channel: Channel | None = None) -> list[Message]:
        """Return what only this user was shown."""
        return [
            message
            for message in self.world.ephemerals
            if message.visible_to == user.id
            and not message.deleted
            and channel in {None, message.channel}
        ]
