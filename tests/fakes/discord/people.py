"""What people do by hand: servers and channels come and go, and somebody says something."""

from typing import Literal

from tests.fakes.discord import posting
from tests.fakes.discord.payloads import member_json, role_json
from tests.fakes.discord.things import (
    USUAL,
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
from tests.fakes.discord.world import World

#: What a channel can be, in short.
KINDS = {
    "text": Kind.TEXT,
    "news": Kind.NEWS,
    "voice": Kind.VOICE,
    "forum": Kind.FORUM,
    "category": Kind.CATEGORY,
}
#: A file that somebody sends: name, media type, content.
Upload = tuple[str, str, bytes]


class People(World):
    """A world with hands in it."""

    # -- what there is ---------------------------------------------------------------------------

    def add_guild(self, name: str, *, bot: bool = True, shard: tuple[int, int] = (0, 1)) -> Guild:
        """Make a server; with the bot in it, unless told otherwise.

        Args:
            name: What it is called.
            bot: Whether the bot is a member.
            shard: Which of how many shards hears it.
        """
        guild_id = self.new_id()
        while (guild_id >> 22) % shard[1] != shard[0]:
            guild_id += 1 << 22
        owner = self.add_user(f"{name.lower()}-owner")
        everyone = Role(guild_id, "@everyone", bits(USUAL), position=0)
        guild = Guild(guild_id, name, owner, self.bot, everyone, self._permissions_changed)
        guild.roles[everyone.id] = everyone
        guild.members[owner.id] = Member(owner)
        self.guilds[guild.id] = guild
        if bot:
            self.join(guild, self.bot)
        return guild

    def _permissions_changed(self, guild: Guild, what: Channel | Role) -> None:
        if isinstance(what, Channel):
            self.tell_channel(what, "CHANNEL_UPDATE")
        else:
            data = {"guild_id": str(guild.id), "role": role_json(what)}
            self.tell("GUILD_ROLE_UPDATE", data, where=guild)

    def add_channel(
        self,
        guild: Guild,
        name: str,
        *,
        kind: Literal["text", "news", "voice", "forum", "category"] = "text",
        category: Channel | None = None,
    ) -> Channel:
        """Make a channel, or a category."""
        channel = Channel(self.new_id(), KINDS[kind], name, guild=guild, parent=category)
        channel.position = len(self.channels_of(guild))
        self.channels[channel.id] = channel
        self.tell_channel(channel, "CHANNEL_CREATE")
        return channel

    def add_user(self, name: str, *, bot: bool = False) -> User:
        """Make an account: a user, or another bot."""
        user = User(self.new_id(), name, bot=bot)
        self.users[user.id] = user
        return user

    def add_role(
        self, guild: Guild, name: str, *, permissions: str = "", mentionable: bool = False
    ) -> Role:
        """Make a role."""
        role = Role(self.new_id(), name, bits(permissions), mentionable, len(guild.roles))
        guild.roles[role.id] = role
        data = {"guild_id": str(guild.id), "role": role_json(role)}
        self.tell("GUILD_ROLE_CREATE", data, where=guild)
        return role

    def join(self, guild: Guild, user: User, *, roles: list[Role] | None = None) -> Member:
        """Let somebody into a server, with these roles; or change the roles that they have."""
        there = guild.members.get(user.id)
        guild.members[user.id] = member = Member(user, list(roles or ()))
        if user is self.bot and not there:
            self.gateway.tell(self.guild_event(guild))
        else:
            name = "GUILD_MEMBER_UPDATE" if there else "GUILD_MEMBER_ADD"
            self.tell(name, member_json(member) | {"guild_id": str(guild.id)}, where=guild)
        return member

    def leave(self, guild: Guild, user: User) -> None:
        """Let somebody leave a server."""
        del guild.members[user.id]

    def kick(self, guild: Guild | None = None) -> None:
        """Throw the bot out of a server, or of all."""
        for each in [guild] if guild else list(self.guilds.values()):
            self.tell("GUILD_DELETE", {"id": str(each.id), "unavailable": False}, where=each)
            each.members.pop(self.bot.id, None)

    def close_dm(self, user: User, *, opening: bool = False) -> None:
        """Let somebody take no direct messages of the bot any more.

        Discord refuses to send there; to open the channel only if `opening`.
        """
        user.closed = True
        user.opening_refused = opening

    def delete_channel(self, channel: Channel) -> None:
        """Delete a channel with its threads, or a thread."""
        for below in [each for each in self.channels.values() if each.parent is channel]:
            if channel.kind is Kind.CATEGORY:
                below.parent = None
            else:
                self._delete_one(below)
        self._delete_one(channel)

    def _delete_one(self, channel: Channel) -> None:
        channel.deleted = True
        del self.channels[channel.id]
        self.tell_channel(channel, "THREAD_DELETE" if channel.kind.is_thread else "CHANNEL_DELETE")

    def archive(self, thread: Channel, *, locked: bool = False) -> None:
        """Archive a thread; locked, only moderators can open it again."""
        thread.archived, thread.locked = True, locked
        self.tell_channel(thread, "THREAD_UPDATE")

    # -- what is said ----------------------------------------------------------------------------

    async def say(
        self,
        user: User,
        channel: Channel,
        text: str = "",
        *,
        mention: bool = False,
        files: list[Upload] | None = None,
        reply_to: Message | None = None,
        forwards: tuple[str, ...] = (),
        ping_reply: bool = True,
        kind: int | None = None,
        webhook: bool = False,
    ) -> Message:
        """Let somebody say something.

        Args:
            user: Who says it.
            channel: Where.
            text: What.
            mention: Begin with a mention of the bot.
            files: Sent along.
            reply_to: Which message it answers.
            forwards: Texts of messages that it forwards.
            ping_reply: Whether that message's author is mentioned by that.
            kind: Discord's type of the message: 7 when somebody joined, for instance.
            webhook: It is said by a webhook in that user's name.
        """
        self.check_presence(user, channel, webhook=webhook)
        payload = {
            # Only a forward may have no words of its own.
            "content": f"{self.bot.mention} {text}" if mention else text or "".join(forwards),
            "allowed_mentions": {
                "parse": ["users", "roles", "everyone"],
                "replied_user": ping_reply,
            },
        }
        if reply_to:
            payload["message_reference"] = {"message_id": str(reply_to.id)}
        uploads = {
            number: File(0, name, content, media_type)
            for number, (name, media_type, content) in enumerate(files or ())
        }
        letter = posting.Letter(user, payload, uploads, kind=kind)
        message = posting.make(self, channel, letter)
        message.webhook, message.forwards = webhook, forwards
        if forwards:
            message.content = text
        return posting.deliver(self, message)

    def check_presence(self, user: User, channel: Channel, *, webhook: bool = False) -> None:
        """Fail where a user could do nothing: that is a mistake in the test."""
        assert channel.id in self.channels, f"{channel.name} is deleted."
        if channel.guild is None:
            assert user in {channel.recipient, self.bot}, f"That is not {user.name}'s DM."
        else:
            here = webhook or user.id in channel.guild.members
            assert here, f"{user.name} is not in {channel.guild.name}: `join` comes first."

    async def redeliver(self, message: Message) -> None:
        """Tell the bot once more of the same message."""
        self.tell_message(message)

    async def edit(self, message: Message, text: str) -> None:
        """Let the author change what a message says."""
        posting.amend(self, message, {"content": text}, {})

    async def delete(self, message: Message) -> None:
        """Let a message be deleted."""
        posting.remove(self, message)

    async def react(self, user: User, message: Message, emoji: str, *, add: bool = True) -> None:
        """Let somebody give a message an emoji, or take it back."""
        posting.react(self, message, emoji, user, add=add)

    async def open_thread(
        self, user: User, channel: Channel, name: str = "talk", *, start: Message | None = None
    ) -> Channel:
        """Let somebody open a thread in a channel, or from a message there."""
        return posting.open_thread(self, channel, user, {"name": name}, start)

    # -- what stands there -----------------------------------------------------------------------

    def messages(self, channel: Channel, *, system: bool = False) -> list[Message]:
        """Return what stands in a channel now, in order; Discord's own messages if wanted."""
        return [
            message
            for message in channel.messages.values()
            if system or message.kind in posting.SAID
        ]

    def answers(self, channel: Channel) -> list[Message]:
        """Return what the bot said in a channel, as it stands now."""
        return [each for each in self.messages(channel) if each.author is self.bot]

    def threads(self, channel: Channel) -> list[Channel]:
        """Return the threads below a channel, the oldest first."""
        return [
            each
            for each in self.channels.values()
            if each.parent is channel and each.kind.is_thread
        ]

    def typing(self, channel: Channel) -> int:
        """Return how often the bot showed there that it types."""
        return channel.typing

    def make_old(self, message: Message) -> None:
        """Let Discord refuse to edit a message: it is over an hour old."""
        message.old = True
