"""A fake `Engine`: remembers what it was given and does none of it."""

from collections.abc import Sequence

from bot.engine import Engine
from db.database import Transaction
from db.work import Kind

#: The id of the process of a fake engine.
ENGINE = "fake"


class FakeEngine(Engine):
    """An engine that is never opened.

    Attributes:
        started: What was started, as (kind, id), in order.
        taken_over: The processes that counted as alive, each time others' work was taken over.
    """

    def __init__(self) -> None:
        self.worker_id = ENGINE
        self.platforms = ("discord", "fake", "slack", "terminal")
        self.started: list[tuple[str, str]] = []
        self.taken_over: list[set[str]] = []

    def start(self, kind: Kind, work_id: str) -> None:
        self.started.append((kind, work_id))

    def offer(self, kind: str = "") -> None:
        pass

    async def take_over(self, tx: Transaction, alive: Sequence[str]) -> int:
        self.taken_over.append(set(alive))
        return 0
