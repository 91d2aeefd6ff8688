"""A fake `Ears`: records what it hears and answers as the test says."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bot.conversations.command_lines import CommandSpec, CommandTable
from bot.conversations.command_table import COMMANDS
from bot.errors import BotError, DatabaseUnreachableError
from bot.platforms.base import CommandReply, Incoming, Overview
from bot.platforms.messages import Missed, PastMessage
from bot.values import Identity, Place, Role
from tests.fakes.patience import PATIENCE_SECONDS

STOPS = ("/stop", "/retinue stop")
AWAY = "My memory cannot be reached at the moment."


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer to a confirmation."""

    user: Identity
    confirmation_id: str
    choice: str
    admin: bool = False


class FakeInboundHandler:
    """Ears of an orchestrator that is not there.

    Args:
        patience: How long `until` waits, in seconds, before it fails the test.

    Attributes:
        commands: What each command answers; every other text is a message, answered with nothing.
        on_message: Called with each message; the reply goes out through an outlet from there.
        runs: What `run_choices` picks from: (id, label) for each user.
        overviews: What each user may see at a glance.
        idle: Where answers were given lately.
        talking: Who talks with the bot where: (user, channel, thread).
        gap: What is to be read after a gap.
        listeners: Each connection that heard its platform, again and again.
        failure: Raised by the next call.
        chosen_for: The action of each call of `run_choices`.
    """

    def __init__(self, *, patience: float = PATIENCE_SECONDS) -> None:
        self.commands = dict.fromkeys(STOPS, CommandReply(text="Stopped."))
        self.on_message: Callable[[Incoming], Awaitable[None]] | None = None
        self.runs: dict[Identity, list[tuple[str, str]]] = {}
        self.overviews: dict[Identity, Overview] = {}
        self.idle: list[Place] = []
        self.talking: set[tuple[Identity, str, str]] = set()
        self.gap: Missed | None = None
        self.listeners: list[str] = []
        self.failure: BotError | Exception | None = None
        self.chosen_for: list[str] = []
        self.heard: list[Incoming] = []
        self.compared: list[tuple[Place, list[str]]] = []
        self.roles: dict[Identity, Role] = {}
        self.known_bots: set[str] = set()
        self.whole_channels: set[str] = set()
        self.changes: list[tuple[Place, str | None]] = []
        self.command_table: CommandTable[CommandSpec] = COMMANDS
        self.answered: list[Answered] = []
        self.overheard: list[Incoming] = []
        self.shared: set[str] = set()
        self._patience = patience
        self._changed = asyncio.Event()

    async def receive(self, incoming: Incoming) -> CommandReply | None:
        """Remember it; answer a known command, and hand a message on."""
        self.heard.append(incoming)
        self._changed.set()
        self._fail_if_told()
        if incoming.text in self.commands:
            return self.commands[incoming.text]
        if self.on_message is not None:
            await self.on_message(incoming)
        return None

    async def listens(self, user: Identity, place: Place) -> bool:
        """Say whether the test has them talk there."""
        return (user, place.channel, place.thread) in self.talking

    def answers_bot(self, user: Identity) -> bool:
        return user.account in self.known_bots

    def hears_all(self, place: Place) -> bool:
        return place.channel in self.whole_channels

    async def compare(self, place: Place, messages: Sequence[PastMessage]) -> None:
        """Remember what was compared."""
        self.compared.append((place, [each.text for each in messages]))

    async def changed(self, place: Place, text: str | None) -> None:
        self.changes.append((place, text))

    async def overhear(self, incoming: Incoming, *, by_bot: bool = False) -> bool:
        """Remember it, and say whether the test has a shared conversation there."""
        self.overheard.append(incoming)
        self._changed.set()
        return incoming.place.thread in self.shared

    async def missed(self, platform: str, listener: str) -> Missed | None:
        """Return what the test has."""
        return self.gap

    async def listening(self, listener: str) -> None:
        """Remember who listens."""
        self.listeners.append(listener)
        self._changed.set()

    async def idle_places(self, platform: str) -> list[Place]:
        """Return what the test has."""
        return [place for place in self.idle if place.platform == platform]

    async def answer(
        self,
        user: Identity,
        confirmation_id: str,
        *,
        choice: str,
        place: Place | None = None,
        admin: bool = False,
    ) -> CommandReply:
        """Remember the answer."""
        self.answered.append(Answered(user, confirmation_id, choice, admin))
        self._changed.set()
        self._fail_if_told()
        return CommandReply(text="Not done." if choice == "no" else "Done.")

    def role_of(self, user: Identity, place: Place) -> Role:
        """Return the role that a test has set."""
        return self.roles.get(user, Role.USER)

    async def run_choices(
        self, user: Identity, typed: str, *, action: str = ""
    ) -> list[tuple[str, str]]:
        """Return this user's runs whose id or label begins with what was typed."""
        self.chosen_for.append(action)
        own = self.runs.get(user, [])
        if typed == "last":
            return own[:1]
        return [
            (run_id, label)
            for run_id, label in own
            if run_id.startswith(typed) or label.startswith(typed)
        ]

    async def overview(self, user: Identity) -> Overview:
        """Return what the test has for this user."""
        return self.overviews.get(user, Overview(active=(), ended=(), usage="", agents=()))

    @property
    def stopped(self) -> list[tuple[Identity, Place]]:
        """Who stopped an answer, and where."""
        return [(each.user, each.place) for each in self.heard if each.text in STOPS]

    def texts(self) -> list[str]:
        """Return the texts heard, in order."""
        return [incoming.text for incoming in self.heard]

    async def until(self, condition: Callable[[], bool], what: str = "the condition") -> None:
        """Wait until something about these ears holds.

        Raises:
            AssertionError: It did not happen in time.
        """
        try:
            async with asyncio.timeout(self._patience):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"The ears waited in vain for {what}.") from None

    def _fail_if_told(self) -> None:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure


class Forgetful(FakeInboundHandler):
    """Ears whose memory is out of reach so many times.

    Attributes:
        attempts: How often they were told something, or asked whether they listen.
        kept: What they could keep.
    """

    def __init__(self, times: float) -> None:
        super().__init__()
        self.attempts = 0
        self.kept: list[str] = []
        self.times = times

    async def receive(self, incoming: Incoming) -> CommandReply | None:
        self._try()
        reply = await super().receive(incoming)
        self.kept.append(incoming.text)
        return reply

    async def listens(self, user: Identity, place: Place) -> bool:
        self._try()
        return await super().listens(user, place)

    def _try(self) -> None:
        self.attempts += 1
        self._changed.set()
        if self.attempts <= self.times:
            raise DatabaseUnreachableError(AWAY)


class SlowInboundHandler(FakeInboundHandler):
    """Answers commands when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()

    async def receive(self, incoming: Incoming) -> CommandReply | None:
        await super().receive(incoming)
        await self.go_on.wait()
        return CommandReply(text="2 of 5")


class DrainedInboundHandler(FakeInboundHandler):
    """Ends its process with each line, before it answers.

    Attributes:
        ended: Set once the process may end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ended = asyncio.Event()

    async def receive(self, incoming: Incoming) -> CommandReply | None:
        self.heard.append(incoming)
        self.ended.set()
        for _ in range(20):
            await asyncio.sleep(0)
        return CommandReply(text="I end.")
