"""What goes wrong with requests, as a test orders it; and what was asked."""

import asyncio
import re
import time
from dataclasses import dataclass, field

from multidict import MultiDict, MultiMapping

from bot.values import Json
from tests.fakes.discord.refusals import CODES
from tests.fakes.discord.things import File

#: In front of every path of the REST API.
API = "/api/v10"


@dataclass(eq=False)
class Sent:
    """A request that came.

    Attributes:
        path: Below the address of the API.
        status: Of the answer; 0 before there is one, and when the connection was dropped.
        at: When it came, by the monotonic clock.
    """

    method: str
    path: str
    json: Json = field(default_factory=dict)
    files: dict[int, File] = field(default_factory=dict)
    query: MultiMapping[str] = field(default_factory=MultiDict)
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 0
    code: int = 0
    at: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        refused = f", {self.code}" if self.code else ""
        return f"{self.method} {self.path} ({self.status}{refused})"


@dataclass(eq=False)
class Fault:
    """What happens to some requests instead of their answer.

    Attributes:
        times: How often it still happens; `None`: until it is taken back.
        status: The answer's status; 0 for the usual answer.
        retry_after: Of a 429.
        cut: The connection is torn down once all is done.
        refuse: The connection is torn down before anything is done.
        hold: The request waits for it before anything is done.
        cloudflare: The answer is no JSON and did not come `Via` Discord.
        hits: How often it happened.
    """

    method: str
    path: str
    times: int | None = 1
    status: int = 0
    code: int = 0
    text: str = ""
    retry_after: float | None = None
    everywhere: bool = False
    cut: bool = False
    refuse: bool = False
    hold: asyncio.Event | None = None
    cloudflare: bool = False
    hits: int = 0

    def __post_init__(self) -> None:
        if self.retry_after is not None or self.cloudflare:
            self.status = self.status or 429
        if self.code:
            usual, text = CODES.get(self.code, (400, "Something is wrong"))
            self.status, self.text = self.status or usual, self.text or text

    def fits(self, method: str, path: str) -> bool:
        """Whether this request is meant; `{…}` in the path stands for anything."""
        pattern = re.sub(r"\\\{.*?\\\}", "[^/]+", re.escape(self.path))
        return self.method in {method, "*"} and bool(re.fullmatch(pattern, path))

    def take_back(self) -> None:
        """Let it happen no more."""
        self.times = 0

    def body(self) -> Json:
        """Return what stands in the answer."""
        body: Json = {"message": self.text or f"{self.status}: It is broken", "code": self.code}
        if self.status == 429:
            body["retry_after"] = 0.05 if self.retry_after is None else self.retry_after
            body["global"] = self.everywhere
        return body

    def headers(self) -> dict[str, str]:
        """Return what stands above the answer."""
        if self.cloudflare:
            return {}
        headers = {"Via": "1.1 google"}
        if self.status == 429:
            after = str(self.body()["retry_after"])
            headers |= {
                "Retry-After": after,
                "X-RateLimit-Limit": "5",
                "X-RateLimit-Remaining": "0",
                "X-RateLimit-Reset-After": after,
                "X-RateLimit-Scope": "user",
            }
            if self.everywhere:
                headers["X-RateLimit-Global"] = "true"
        return headers


@dataclass(eq=False)
class Window:
    """A rate limit on some requests, which Discord tells in the headers of each answer.

    Attributes:
        limit: How many requests pass in one window.
        seconds: How long the window still lasts, whatever the time is.
        used: How many have passed.
    """

    method: str
    path: str
    limit: int
    seconds: float
    used: int = 0

    def take(self) -> Fault | None:
        """Count a request; return its refusal when there were too many."""
        if self.used >= self.limit:
            return Fault(self.method, self.path, retry_after=self.seconds)
        self.used += 1
        return None

    def headers(self) -> dict[str, str]:
        """Return what stands above an answer."""
        return {
            "X-RateLimit-Bucket": f"{self.method} {self.path}",
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.limit - self.used),
            "X-RateLimit-Reset-After": str(self.seconds),
        }


class Faults:
    """The faults that a test ordered, the oldest first, and the rate limits."""

    def __init__(self) -> None:
        self.ordered: list[Fault] = []
        self.windows: list[Window] = []

    def window(self, method: str, path: str) -> Window | None:
        """Return the rate limit on a request."""
        fitting = (
            each for each in self.windows if Fault(each.method, each.path).fits(method, path)
        )
        return next(fitting, None)

    def take(self, method: str, path: str) -> Fault | None:
        """Return what happens to this request, and count it."""
        for fault in self.ordered:
            if fault.times == 0 or not fault.fits(method, path):
                continue
            if fault.times is not None:
                fault.times -= 1
            fault.hits += 1
            return fault
        return None
