"""What was asked of the Web API, what of it is to fail, and how often it may be asked."""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

from bot.values import Json


@dataclass(eq=False, slots=True)
class Call:
    """One call.

    Attributes:
        time: On the monotonic clock.
        team: The id of the team, or of the organisation, whose token was used; empty for none.
        error: What was answered; empty for a success.
    """

    method: str
    args: Json
    time: float
    token: str = ""
    team: str = ""
    error: str = ""


@dataclass(eq=False, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong with calls of a method.

    Attributes:
        error: Slack's name of the error.
        status: Of the HTTP response, when it is not 200.
        retry_after: In seconds, as a header.
        body: What comes instead of JSON.
        cut: It is done, and then the connection breaks before the answer.
        refuse: The connection breaks before it is done.
        hold: It is not done before this is set.
        late: It is done, and not answered before this is set.
        times: How often; `None` until it is healed.
        when: Which calls.
        hits: How often it has happened.
        reached: Set when it has happened once.
    """

    method: str
    error: str = ""
    status: int = 200
    retry_after: int | None = None
    body: str | None = None
    cut: bool = False
    refuse: bool = False
    hold: asyncio.Event | None = None
    late: asyncio.Event | None = None
    times: int | None = 1
    when: Callable[[Json], bool] | None = None
    hits: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def answers(self) -> bool:
        """Whether it answers instead of Slack."""
        return bool(self.error) or self.status != 200 or self.body is not None

    def fits(self, method: str, args: Json) -> bool:
        left = self.times is None or self.hits < self.times
        return left and self.method in {method, "*"} and (self.when is None or self.when(args))


class Faults:
    """What is to go wrong, in the order in which it was asked for."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def take(self, method: str, args: Json) -> Fault | None:
        """Return what goes wrong with this call."""
        for fault in self._faults:
            if fault.fits(method, args):
                fault.hits += 1
                fault.reached.set()
                return fault
        return None

    def heal(self, method: str = "") -> None:
        """Let nothing more go wrong with a method, or with any."""
        self._faults = [fault for fault in self._faults if method and fault.method != method]


class Rates:
    """How often a method may be called in a workspace.

    Attributes:
        on: Whether anything is refused at all.
        per_minute: The tiers; methods that are not listed are unlimited.
        per_channel: How many messages a channel takes within ten seconds.
        minute: How long the window is, in seconds.
    """

    def __init__(self) -> None:
        self.on = False
        self.minute = 60.0
        self.per_channel = 10
        self.per_minute = {
            "chat.update": 50,
            "chat.delete": 50,
            "chat.startStream": 20,
            "chat.stopStream": 20,
            "chat.appendStream": 100,
            "chat.postEphemeral": 100,
            "agents.sessions.setStatus": 50,
            "conversations.open": 50,
            "conversations.info": 50,
            "reactions.add": 50,
            "reactions.remove": 20,
            "users.info": 100,
            "views.open": 100,
            "views.publish": 100,
            "views.update": 100,
            "files.getUploadURLExternal": 100,
            "files.completeUploadExternal": 100,
        }
        self._taken: dict[tuple[str, str], deque[float]] = defaultdict(deque)

    def wait_for(self, method: str, team: str, args: Json) -> int:
        """Take one call into account; return for how many seconds no more are let through."""
        if not self.on:
            return 0
        if method == "chat.postMessage":
            window = min(10.0, self.minute)
            return self._take((method, str(args.get("channel"))), self.per_channel, window)
        most = self.per_minute.get(method)
        return 0 if most is None else self._take((method, team), most, self.minute)

    def _take(self, key: tuple[str, str], most: int, window: float) -> int:
        now = time.monotonic()
        taken = self._taken[key]
        while taken and taken[0] <= now - window:
            taken.popleft()
        if len(taken) < most:
            taken.append(now)
            return 0
        return max(ceil(taken[0] + window - now), 1)
