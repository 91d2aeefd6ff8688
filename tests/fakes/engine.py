"""A fake `Engine`: remembers what it was given and does none of it."""

from datetime import datetime

from bot.engine import Engine


class FakeEngine(Engine):
    """An engine that is never opened.

    Attributes:
        started: What was started, as (kind, id, lane), in order.
    """

    def __init__(self) -> None:
        self.started: list[tuple[str, str, str]] = []

    async def start(self, kind: str, work_id: str, lane: str) -> None:
        self.started.append((kind, work_id, lane))

    async def forget_before(self, moment: datetime) -> int:
        return 0
