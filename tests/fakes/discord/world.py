"""All that is true in the fake Discord, and who is told when it changes."""

import time

from bot.values import Json
from tests.fakes.discord.faults import Faults, Sent
from tests.fakes.discord.gateway import Event, Gateway, Session
from tests.fakes.discord.payloads import (
    EPOCH_MS,
    FILE_LIMIT,
    channel_json,
    guild_json,
    said_json,
    user_json,
    without_content,
)
from tests.fakes.discord.refusals import Refusal
from tests.fakes.discord.things import Channel, File, Guild, Kind, Message, User, bits
from tests.fakes.patience import Pulse

TOKEN = "MTAwMDAwMDAwMDAwMDAwMDAw.fake.token-of-the-tests"


class World:
    """What is where, what was asked, and who is told.

    Attributes:
        token: The only one that is accepted.
        bot: The bot's account.
        owner: Who made the application.
        application_id: Its application, which has the same id.
        application: What its settings say; a test may change them.
        application_flags: Which privileged intents it may use.
        commands: Those registered everywhere.
        guild_commands: Those registered in servers, by the server's id.
        syncs: How often commands were registered.
        sent: Every request, in order.
        broken: Requests of which we could make nothing: the fake lacks something.
        refuse_files: Every file is too large.
        file_limit: The largest file, in bytes.
        pulse: Beats when something has happened.
        nonce_seconds: How long a nonce is remembered.
        interaction_seconds: Within which the first answer to an interaction must come.
        token_seconds: How long further answers may follow.
        old_edit_retry_after: What Discord says when it edits an old message no more.
    """

    def __init__(self) -> None:
        self._last_id = 0
        self.pulse = Pulse(describe=self.describe)
        self.until = self.pulse.until
        self.token = TOKEN
        self.bot = User(self.new_id(), "retinue", bot=True)
        self.owner = User(self.new_id(), "maker")
        self.application_id = self.bot.id
        self.application: Json = {}
        self.url = ""
        self.faults = Faults()
        self.gateway = Gateway(self.token, self.bot, self.touch)
        self.gateway.greeting = self._greeting
        self.users: dict[int, User] = {
            self.bot.id: self.bot,
            self.owner.id: self.owner,
        }
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, Channel] = {}
        self.files: dict[int, File] = {}
        self.nonces: dict[str, tuple[float, Message]] = {}
        self.commands: list[Json] = []
        self.guild_commands: dict[int, list[Json]] = {}
        self.syncs = 0
        self.search_preparing = 0
        self.sent: list[Sent] = []
        self.broken: list[str] = []
        self.refuse_files = False
        self.file_limit = FILE_LIMIT
        self.nonce_seconds = 180.0
        self.interaction_seconds = 3.0
        self.token_seconds = 900.0
        self.old_edit_retry_after = 0.05

    # -- addresses and ids -----------------------------------------------------------------------

    @property
    def api_url(self) -> str:
        """Where the REST API is (`discord.http.Route.BASE`)."""
        return f"{self.url}/api/v10"

    @property
    def gateway_url(self) -> str:
        """Where the gateway is (`DiscordWebSocket.DEFAULT_GATEWAY`)."""
        return f"ws{self.url.removeprefix('http')}/gateway"

    @property
    def files_url(self) -> str:
        """Below which files are."""
        return self.url

    @property
    def identifies(self) -> int:
        """How often a session at the gateway began."""
        return self.gateway.identifies

    @property
    def resumes(self) -> int:
        """How often one went on."""
        return self.gateway.resumes

    @property
    def intents(self) -> int:
        """What the last session asked for."""
        return self.gateway.intents

    @property
    def application_flags(self) -> int:
        """Which privileged intents the application may use."""
        return self.gateway.flags

    @application_flags.setter
    def application_flags(self, flags: int) -> None:
        self.gateway.flags = flags

    def new_id(self) -> int:
        """Return an id that says it is now."""
        milliseconds = int(time.time() * 1000) - EPOCH_MS
        self._last_id = max(self._last_id + 1, milliseconds << 22)
        return self._last_id

    # -- finding ---------------------------------------------------------------------------------

    def channel(self, channel_id: int) -> Channel:
        """Return a channel that the bot may see, or refuse."""
        channel = self.channels.get(channel_id)
        if channel is None:
            raise Refusal(10003)
        if channel.guild and not self.may(channel, "view_channel"):
            raise Refusal(50001)
        return channel

    def message(self, channel_id: int, message_id: int) -> Message:
        """Return a message that the bot may see, or refuse."""
        message = self.channel(channel_id).messages.get(message_id)
        if message is None:
            raise Refusal(10008)
        return message

    def guild(self, guild_id: int) -> Guild:
        """Return a server that the bot is in, or refuse."""
        guild = self.guilds.get(guild_id)
        if guild is None:
            raise Refusal(10004)
        if not guild.has_bot:
            raise Refusal(50001)
        return guild

    def may(self, channel: Channel, names: str) -> bool:
        """Whether the bot may do all that in a channel."""
        if channel.guild is None:
            return True
        wanted = bits(names)
        return channel.guild.permissions(self.bot, channel) & wanted == wanted

    def dm(self, user: User) -> Channel:
        """Return somebody's direct messages with the bot."""
        for channel in self.channels.values():
            if channel.recipient is user:
                return channel
        channel = Channel(self.new_id(), Kind.DM, recipient=user)
        self.channels[channel.id] = channel
        return channel

    def channels_of(self, guild: Guild) -> list[Channel]:
        """Return a server's channels and threads."""
        return [channel for channel in self.channels.values() if channel.guild is guild]

    # -- telling ---------------------------------------------------------------------------------

    def touch(self) -> None:
        """Wake up whoever waits for a change."""
        self.pulse.beat()

    def tell(
        self, name: str, data: Json, *, where: Channel | Guild | None, hidden: Json | None = None
    ) -> None:
        """Tell the bot that something happened, if it is there and may see it."""
        guild = where.guild if isinstance(where, Channel) else where
        unseen = isinstance(where, Channel) and not self.may(where, "view_channel")
        if guild is None or (guild.has_bot and not unseen):
            self.gateway.tell(Event(name, data, hidden, guild.id if guild else 0))
        self.touch()

    def tell_message(self, message: Message, name: str = "MESSAGE_CREATE") -> None:
        """Tell the bot of a message, without its content where it may not read it."""
        data = said_json(message, self.bot, self.files_url)
        hidden = None if self._readable(message) else without_content(data)
        answered = message.answered
        if answered and not self._readable(answered):
            unread = without_content(data["referenced_message"])
            hidden = (hidden or data) | {"referenced_message": unread}
        self.tell(name, data, where=message.channel, hidden=hidden)

    def _readable(self, message: Message) -> bool:
        """Whether a bot without the message-content intent may read it."""
        own = message.author is self.bot or message.channel.guild is None
        return own or self.bot in message.mentions

    def tell_channel(self, channel: Channel, name: str, **more: object) -> None:
        """Tell the bot of a channel, whether it sees it or not; of a thread only if it does."""
        where = channel if channel.kind.is_thread else channel.guild
        self.tell(name, channel_json(channel, self.bot) | more, where=where)

    def guild_event(self, guild: Guild) -> Event:
        """Return what a bot is told about a server that it is in."""
        channels = [
            channel
            for channel in self.channels_of(guild)
            if not channel.kind.is_thread or self.may(channel, "view_channel")
        ]
        data = guild_json(guild, channels)
        return Event("GUILD_CREATE", data, guild=guild.id)

    def _greeting(self, session: Session) -> list[Event]:
        number, count = session.shard
        guilds = [
            guild
            for guild in self.guilds.values()
            if guild.has_bot and (guild.id >> 22) % count == number
        ]
        ready = {
            "v": 10,
            "user": user_json(self.bot) | {"verified": True, "mfa_enabled": True, "email": None},
            "guilds": [{"id": str(guild.id), "unavailable": True} for guild in guilds],
            "private_channels": [],
            "session_id": session.id,
            "session_type": "normal",
            "resume_gateway_url": self.gateway_url,
            "shard": list(session.shard),
            "application": {"id": str(self.application_id), "flags": self.application_flags},
        }
        events = [self.guild_event(guild) for guild in guilds if session.intents & 1]
        return [Event("READY", ready), *events]

    # -- waiting ---------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return what stands where, and the last requests."""
        lines = [f"{len(self.gateway.connected)} client(s) connected to the gateway."]
        for channel in self.channels.values():
            for message in channel.messages.values():
                where = f"#{channel.name or (channel.recipient and channel.recipient.name)}"
                lines.append(f"{where} {message.author.name}: {message.text()[:300]!r}")
        lines += [str(sent) for sent in self.sent[-20:]]
        return "\n".join(lines)
