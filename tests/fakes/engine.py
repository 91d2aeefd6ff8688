"""A fake `Engine`: remembers what it was given and does none of it."""

from collections.abc import Sequence
from datetime import datetime

from bot.engine import Engine


class FakeEngine(Engine):
    """An engine that is never opened.

    Attributes:
        started: What was started, as (kind, id, lane), in order.
        taken_over: The processes that counted as alive, each time others' work was taken over.
    """

    def __init__(self) -> None:
        self.started: list[tuple[str, str, str]] = []
        self.taken_over: list[set[str]] = []

    async def start(self, kind: str, work_id: str, lane: str) -> None:
        self.started.append((kind, work_id, lane))

    async def take_over(self, alive: Sequence[str]) -> list[str]:
        self.taken_over.append(set(alive))
        return []

    async def forget_before(self, moment: datetime) -> bool:
        return False
