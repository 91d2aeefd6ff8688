"""The chats that a story is played on: Discord, and Slack over sockets and over HTTP."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import select

from bot.running import Bot
from bot.values import Json
from db.tables import messages
from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.fakes.discord import things as discord_things
from tests.fakes.discord.interactions import Interaction
from tests.fakes.patience import eventually
from tests.fakes.slack import shapes as slack_shapes
from tests.fakes.slack.answers import Answer as SlackAnswer
from tests.stories import on_discord, on_slack
from tests.stories.stage import Gate, Play

File = tuple[str, str, bytes]

#: The users of every chat.
USERS = ("alice", "bob", "root")


@dataclass(frozen=True)
class ChatWay:
    """The platform with its transport, and the database of the bot."""

    transport: Literal["discord", "socket", "http"]
    database_url: str


@dataclass(frozen=True)
class Shown:
    """A message of the bot as it stands in a chat; equal to another if it is the same message."""

    key: str
    text: str
    buttons: tuple[str, ...]
    edits: int
    pings: frozenset[str]
    native: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shown) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class Answer:
    """The immediate answer to a click, a form or a command.

    Attributes:
        private: It is shown to the user alone.
        form: The form that was opened, to be filled in by `Chat.fill`.
    """

    text: str
    private: bool
    form: Any = None


@dataclass
class Talk:
    """A thread, or the direct messages with one user.

    Attributes:
        message: The first message of a thread; `None` for direct messages on Discord.
    """

    message: Any
    channel: Any


class Chat(ABC):
    """A chat with the users alice, bob and root, who do not trust each other.

    Users are called by these names. A bot is in it within `bot`; users may write without one.
    """

    scene: Any

    @property
    def running(self) -> Bot:
        """The bot that runs."""
        found: Bot = self.scene.bot
        return found

    @property
    def gate(self) -> Gate:
        """The gate of the bot that runs."""
        found: Gate = self.scene.gate
        return found

    @property
    def model(self) -> FakeAnthropic:
        """The model of the bot that runs."""
        found: FakeAnthropic = self.scene.model
        return found

    @abstractmethod
    def bot(
        self, play: Callable[[Json], Reply] | Play, **given: Any
    ) -> AbstractAsyncContextManager[None]:
        """Run the bot; for what may be given see `on_discord` and `on_slack`."""

    @abstractmethod
    def account(self, user: str) -> str:
        """Return the account of a user as `access` names it."""

    @abstractmethod
    def name(self, user: str) -> str:
        """Return the text by which messages of the bot name a user."""

    @abstractmethod
    def let_in(self, *users: str) -> Json:
        """Return the settings of the platform that admit these users alone."""

    @abstractmethod
    async def ask(self, user: str, text: str, *, files: Sequence[File] = ()) -> Talk:
        """Mention the bot in the channel, which begins a thread."""

    @abstractmethod
    async def open(self, user: str, text: str) -> Talk:
        """Write in the channel without a mention; an answer begins a thread."""

    @abstractmethod
    async def discuss(self, user: str, text: str) -> Talk:
        """Begin a thread in the channel without the bot."""

    @abstractmethod
    async def write(
        self, user: str, talk: Talk, text: str, *, mention: bool = False, to: str = ""
    ) -> Any:
        """Write in a thread, or in direct messages; return the message.

        Args:
            user: The author.
            talk: The thread.
            text: The text.
            mention: Begin with a mention of the bot.
            to: Begin with a mention of this user.
        """

    @abstractmethod
    def add_user(self, name: str, shown: str = "") -> None:
        """Let a further user join, who is called by this name here and shown as another to all."""

    @abstractmethod
    async def post_elsewhere(self, user: str, text: str, *readers: str) -> str:
        """Write in another channel, which these users alone read, if any; return the link."""

    @abstractmethod
    def add_admin_channel(self, *readers: str) -> tuple[str, Talk]:
        """Add a channel for these users, and return its name in the configuration."""

    @abstractmethod
    def add_bot(self, name: str) -> None:
        """Let another bot join, which is then a user of this name."""

    @abstractmethod
    async def edit(self, message: Any, text: str, *, mention: bool = False) -> None:
        """Let the author of a message change it."""

    @abstractmethod
    async def delete(self, message: Any) -> None:
        """Let the author of a message delete it."""

    @abstractmethod
    async def react(self, user: str, message: Any, emoji: str) -> None:
        """Let a user react to a message."""

    async def gone(self, text: str) -> None:
        """Wait until no stored message has a text."""

        async def look() -> bool:
            async with self.running.database.snapshot() as tx:
                query = select(messages.c.id).where(messages.c.text == text)
                return await tx.scalar(query) is None

        await eventually(look, f"no {text!r} in the database")

    @abstractmethod
    def marks(self, message: Any) -> set[str]:
        """Return the reactions to a message of a user, as emojis."""

    async def stored(self, text: str) -> None:
        """Wait until a message with this text is stored: of a user, or the reply of a turn.

        Messages of different users may overtake one another, and a reply can be read before its
        turn is over.
        """
        query = select(messages.c.id).where(messages.c.text.contains(text, autoescape=True))

        async def look() -> bool:
            async with self.running.database.snapshot() as tx:
                return await tx.scalar(query.limit(1)) is not None

        await eventually(look, f"{text!r} in the database")

    @abstractmethod
    async def ask_privately(self, user: str, text: str) -> Talk:
        """Begin a conversation in direct messages."""

    @abstractmethod
    async def deliver_again(self, talk: Talk) -> None:
        """Deliver the first message of a thread once more."""

    @abstractmethod
    async def click(self, user: str, shown: Shown, label: str) -> Answer:
        """Click a button of a message, also one that the platform does not show this user."""

    @abstractmethod
    async def fill(self, user: str, form: Any, text: str) -> Answer:
        """Fill in a form and send it."""

    @abstractmethod
    async def command(self, user: str, talk: Talk, name: str, **options: str) -> Answer:
        """Use a slash command, such as `subagents stop`, with its options in their order."""

    async def said(self, talk: Talk) -> list[Shown]:
        """Return the messages of the bot in a thread, in order."""
        await self._ready(talk)
        return self._said(talk)

    def texts(self, talk: Talk) -> list[str]:
        """Return the texts of the bot in a thread that exists."""
        return [each.text for each in self._said(talk)]

    @abstractmethod
    def files(self, talk: Talk) -> list[tuple[str, bytes]]:
        """Return the names and contents of the files that the bot has sent in a thread."""

    @abstractmethod
    def direct_files(self, user: str) -> list[tuple[str, bytes]]:
        """Return the names and contents of the files that the bot has sent to a user directly."""

    @abstractmethod
    def direct_texts(self, user: str) -> list[str]:
        """Return the texts that the bot has sent to a user directly."""

    @abstractmethod
    def in_channel(self) -> list[str]:
        """Return the texts of the bot in the channel outside of threads."""

    @abstractmethod
    def told(self, user: str) -> list[str]:
        """Return the texts that the bot has shown this user alone."""

    @abstractmethod
    def pings(self) -> list[str]:
        """Return the users that the bot has ever notified, with repetitions."""

    @abstractmethod
    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until a condition holds, looking whenever something happens."""

    async def reads(self, talk: Talk, words: str) -> Shown:
        """Wait until a message of the bot holds these words, and return it."""
        await self._ready(talk)
        await self.until(lambda: self._holding(talk, words), f"{words!r}")
        return self._holding(talk, words)[0]

    async def card(self, talk: Talk, label: str, state: str = "running") -> Shown:
        """Wait until the card of a run shows a state, and return it."""
        await self._ready(talk)

        def found() -> list[Shown]:
            return [each for each in self._holding(talk, label, state) if each.buttons]

        await self.until(found, f"a card of {label}, {state}")
        return found()[0]

    async def hears(self, user: str, words: str) -> str:
        """Wait until the bot has shown this user alone these words; return the text."""

        def found() -> list[str]:
            return [text for text in self.told(user) if words in text]

        await self.until(found, f"{words!r} for {user} alone")
        return found()[0]

    def again(self, talk: Talk, shown: Shown) -> Shown:
        """Return a message as it stands now."""
        return next(each for each in self._said(talk) if each == shown)

    def _holding(self, talk: Talk, *words: str) -> list[Shown]:
        return [each for each in self._said(talk) if all(word in each.text for word in words)]

    @abstractmethod
    async def _ready(self, talk: Talk) -> None:
        """Wait until a thread exists."""

    @abstractmethod
    def _said(self, talk: Talk) -> list[Shown]: ...


class DiscordChat(Chat):
    """A Discord server."""

    def __init__(self, server: on_discord.Server, database_url: str) -> None:
        self.server = server
        self.discord = server.discord
        self._database_url = database_url
        self._answers: dict[str, list[Interaction]] = {}
        self.others: dict[str, discord_things.User] = {}

    @asynccontextmanager
    async def bot(self, play: Callable[[Json], Reply] | Play, **given: Any) -> AsyncIterator[None]:
        async with on_discord.on_discord(self._database_url, self.server, play, **given) as scene:
            self.scene = scene
            yield

    def account(self, user: str) -> str:
        return f"discord:{self._user(user).id}"

    def name(self, user: str) -> str:
        return self._user(user).mention

    def let_in(self, *users: str) -> Json:
        staff = self.discord.add_role(self.server.guild, "staff")
        for user in users:
            self.server.guild.members[self._user(user).id].roles.append(staff)
        return {"roles": (str(staff.id),)}

    async def ask(self, user: str, text: str, *, files: Sequence[File] = ()) -> Talk:
        message = await self.discord.say(
            self._user(user), self.server.channel, text, mention=True, files=list(files)
        )
        return Talk(message, None)

    async def open(self, user: str, text: str) -> Talk:
        return Talk(await self.discord.say(self._user(user), self.server.channel, text), None)

    async def discuss(self, user: str, text: str) -> Talk:
        who, channel = self._user(user), self.server.channel
        message = await self.discord.say(who, channel, text)
        return Talk(message, await self.discord.open_thread(who, channel, start=message))

    async def write(
        self, user: str, talk: Talk, text: str, *, mention: bool = False, to: str = ""
    ) -> Any:
        await self._ready(talk)
        text = f"{self._user(to).mention} {text}" if to else text
        return await self.discord.say(self._user(user), talk.channel, text, mention=mention)

    async def reply(self, user: str, talk: Talk, text: str, *, to: Any) -> Any:
        """Write in reply to a message, whose author is not notified."""
        who = self._user(user)
        return await self.discord.say(who, talk.channel, text, reply_to=to, ping_reply=False)

    def add_user(self, name: str, shown: str = "") -> None:
        self.others[name] = self.discord.add_user(shown or name)
        self.discord.join(self.server.guild, self.others[name])

    async def post_elsewhere(self, user: str, text: str, *readers: str) -> str:
        channel = self.discord.add_channel(self.server.guild, "elsewhere")
        if readers:
            channel.readers = {self._user(each).id for each in readers}
        message = await self.discord.say(self._user(user), channel, text)
        ids = (self.server.guild.id, channel.id, message.id)
        return f"https://discord.com/channels/{'/'.join(map(str, ids))}"

    def add_admin_channel(self, *readers: str) -> tuple[str, Talk]:
        channel = self.discord.add_channel(self.server.guild, "admins")
        channel.readers = {self._user(each).id for each in readers}
        return f"discord:{self.server.guild.id}:{channel.id}", Talk(None, channel)

    def add_bot(self, name: str) -> None:
        self.others[name] = self.discord.add_user(name, bot=True)
        self.discord.join(self.server.guild, self.others[name])

    async def edit(self, message: Any, text: str, *, mention: bool = False) -> None:
        await self.discord.edit(message, f"{self.discord.bot.mention} {text}" if mention else text)

    async def delete(self, message: Any) -> None:
        await self.discord.delete(message)

    async def react(self, user: str, message: Any, emoji: str) -> None:
        await self.discord.react(self._user(user), message, emoji)

    def marks(self, message: Any) -> set[str]:
        return set(message.reactions)

    async def ask_privately(self, user: str, text: str) -> Talk:
        channel = self.discord.dm(self._user(user))
        return Talk(await self.discord.say(self._user(user), channel, text), channel)

    async def deliver_again(self, talk: Talk) -> None:
        await self.discord.redeliver(talk.message)

    async def click(self, user: str, shown: Shown, label: str) -> Answer:
        return await self._answer(
            user, await self.discord.click(self._user(user), shown.native, label)
        )

    async def fill(self, user: str, form: Any, text: str) -> Answer:
        return await self._answer(user, await self.discord.submit(self._user(user), form, text))

    async def command(self, user: str, talk: Talk, name: str, **options: str) -> Answer:
        await self._ready(talk)
        given: dict[str, Any] = dict(options)
        slash = await self.discord.slash(self._user(user), talk.channel, name, **given)
        return await self._answer(user, slash)

    def files(self, talk: Talk) -> list[tuple[str, bytes]]:
        return [file for each in self._mine(talk.channel) for file in each.files]

    def direct_files(self, user: str) -> list[tuple[str, bytes]]:
        direct = self.discord.dm(self._user(user))
        return [file for each in self._mine(direct) for file in each.files]

    def direct_texts(self, user: str) -> list[str]:
        return [each.text() for each in self._mine(self.discord.dm(self._user(user)))]

    def in_channel(self) -> list[str]:
        return [each.text() for each in self._mine(self.server.channel)]

    def told(self, user: str) -> list[str]:
        return [*self.direct_texts(user), *(each.text() for each in self._answers.get(user, ()))]

    def pings(self) -> list[str]:
        return [self._name(each) for each in self.scene.pings()]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await self.discord.until(condition, what)

    async def _ready(self, talk: Talk) -> None:
        if talk.channel is None:
            await self.discord.until(lambda: talk.message.thread is not None, "a thread")
            talk.channel = talk.message.thread

    async def _answer(self, user: str, found: Interaction) -> Answer:
        await found.done()
        self._answers.setdefault(user, []).append(found)
        return Answer(found.text(), found.ephemeral, found.modal)

    def _said(self, talk: Talk) -> list[Shown]:
        return [
            Shown(
                key=str(each.id),
                text=each.text(),
                buttons=tuple(each.buttons()),
                edits=each.edits,
                pings=frozenset(self._name(ping) for ping in each.pings),
                native=each,
            )
            for each in self._mine(talk.channel)
        ]

    def _mine(self, channel: discord_things.Channel) -> list[discord_things.Message]:
        bot = self.discord.bot.id
        return [each for each in self.discord.messages(channel) if each.author_id == bot]

    def _user(self, name: str) -> discord_things.User:
        found: discord_things.User = self.others.get(name) or getattr(self.server, name)
        return found

    def _name(self, pinged: object) -> str:
        users = {self._user(name).id: name for name in (*USERS, *self.others)}
        return users.get(pinged, str(pinged))  # type: ignore[call-overload,no-any-return]


class SlackChat(Chat):
    """A workspace of Slack."""

    def __init__(self, office: on_slack.Office, way: on_slack.Way) -> None:
        self.office = office
        self.slack = office.slack
        self._way = way
        self.others: dict[str, slack_shapes.User] = {}

    @asynccontextmanager
    async def bot(self, play: Callable[[Json], Reply] | Play, **given: Any) -> AsyncIterator[None]:
        async with on_slack.on_slack(self._way, self.office, play, **given) as scene:
            self.scene = scene
            yield

    def account(self, user: str) -> str:
        return f"slack:{self.slack.team.id}:{self._user(user).id}"

    def name(self, user: str) -> str:
        return self._user(user).name

    def let_in(self, *users: str) -> Json:
        return {"users": tuple(self._user(user).id for user in users)}

    async def ask(self, user: str, text: str, *, files: Sequence[File] = ()) -> Talk:
        room = self.office.channel
        message = await self.slack.say(
            self._user(user), room, text, mention=True, files=list(files)
        )
        return Talk(message, room)

    async def open(self, user: str, text: str) -> Talk:
        return await self.discuss(user, text)

    async def discuss(self, user: str, text: str) -> Talk:
        room = self.office.channel
        return Talk(await self.slack.say(self._user(user), room, text), room)

    async def write(
        self, user: str, talk: Talk, text: str, *, mention: bool = False, to: str = ""
    ) -> Any:
        who, thread = self._user(user), talk.message
        text = f"<@{self._user(to).id}> {text}" if to else text
        return await self.slack.say(
            who, talk.channel, text, thread=thread, mention=mention, raw=bool(to)
        )

    def add_user(self, name: str, shown: str = "") -> None:
        self.others[name] = self.slack.add_user(shown or name)

    async def post_elsewhere(self, user: str, text: str, *readers: str) -> str:
        inside = [self._user(each) for each in readers] or None
        channel = self.slack.add_channel("elsewhere", private=bool(readers), members=inside)
        return (await self.slack.say(self._user(user), channel, text)).permalink

    def add_admin_channel(self, *readers: str) -> tuple[str, Talk]:
        inside = [self._user(each) for each in readers]
        channel = self.slack.add_channel("admins", private=True, members=inside)
        return f"slack:{self.slack.team.id}:{channel.id}", Talk(None, channel)

    def add_bot(self, name: str) -> None:
        self.others[name] = self.slack.add_user(name, bot=True)

    async def edit(self, message: Any, text: str, *, mention: bool = False) -> None:
        await self.slack.edit(message, text, mention=mention)

    async def delete(self, message: Any) -> None:
        await self.slack.delete(message)

    async def react(self, user: str, message: Any, emoji: str) -> None:
        (name,) = (name for name, each in EMOJIS.items() if each == emoji)
        message.reactions.setdefault(name, set()).add(self._user(user).id)

    def marks(self, message: Any) -> set[str]:
        return {EMOJIS.get(name, name) for name, users in message.reactions.items() if users}

    async def ask_privately(self, user: str, text: str) -> Talk:
        channel = self.slack.dm(self._user(user))
        return Talk(await self.slack.say(self._user(user), channel, text), channel)

    async def deliver_again(self, talk: Talk) -> None:
        await self.slack.redeliver(talk.message)

    async def click(self, user: str, shown: Shown, label: str) -> Answer:
        clicked = await self.slack.click(self._user(user), shown.native, label, force=True)
        return await self._answer(clicked)

    async def fill(self, user: str, form: Any, text: str) -> Answer:
        sent = await self.slack.submit(self._user(user), form, {"text": text})
        return Answer("\n".join(sent.errors.values()), private=True)

    async def command(self, user: str, talk: Talk, name: str, **options: str) -> Answer:
        group, _, rest = name.partition(" ")
        typed = " ".join([rest, *options.values()])
        slash = await self.slack.slash(self._user(user), talk.channel, f"/{group}", typed)
        return await self._answer(slash)

    def files(self, talk: Talk) -> list[tuple[str, bytes]]:
        said = self.slack.said(talk.channel, talk.message)
        return [(file.name, file.content or b"") for each in said for file in each.files]

    def direct_files(self, user: str) -> list[tuple[str, bytes]]:
        said = self.slack.said(self.slack.dm(self._user(user)))
        return [(file.name, file.content or b"") for each in said for file in each.files]

    def direct_texts(self, user: str) -> list[str]:
        direct = self.slack.dm(self._user(user))
        return [each.readable() for each in self.slack.said(direct)]

    def in_channel(self) -> list[str]:
        said = self.slack.said(self.office.channel)
        return [each.readable() for each in said if not each.thread_ts]

    def told(self, user: str) -> list[str]:
        who = self._user(user)
        return [each.readable(who) for each in self.slack.ephemerals(who)]

    def pings(self) -> list[str]:
        return [self._name(each) for each in self.scene.pings()]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await self.slack.until(condition, what)

    async def _ready(self, talk: Talk) -> None:
        """Threads of Slack exist from their first message on."""

    async def _answer(self, found: SlackAnswer) -> Answer:
        await found.done()
        return Answer(found.text(), found.ephemeral, found)

    def _said(self, talk: Talk) -> list[Shown]:
        return [
            Shown(
                key=each.ts,
                text=each.readable(),
                buttons=tuple(button.label for button in each.buttons()),
                edits=each.edits,
                pings=frozenset(map(self._name, each.pings)),
                native=each,
            )
            for each in self.slack.said(talk.channel, talk.message)
        ]

    def _user(self, name: str) -> slack_shapes.User:
        found: slack_shapes.User = self.others.get(name) or getattr(self.office, name)
        return found

    def _name(self, ping: str) -> str:
        users = {f"<@{self._user(name).id}>": name for name in (*USERS, *self.others)}
        return users.get(ping, ping)


#: The emojis behind Slack's names of reactions.
EMOJIS = {"eyes": "👀", "white_check_mark": "✅", "+1": "👍"}


@asynccontextmanager
async def new_chat(way: ChatWay, *further: str) -> AsyncIterator[Chat]:
    """Open a chat without the bot, with further users of these names."""
    async with AsyncExitStack() as stack:
        chat: Chat
        if way.transport == "discord":
            server = await stack.enter_async_context(on_discord.new_server())
            chat = DiscordChat(server, way.database_url)
        else:
            office = await stack.enter_async_context(on_slack.new_office())
            chat = SlackChat(office, on_slack.Way(way.transport, way.database_url))
        for name in further:
            chat.add_user(name)
        yield chat
