"""The signals that end a process, and the end that does not wait."""

import asyncio
import os
import signal

from bot.signals import StopSignals, exit_after
from tests.fakes.patience import eventually


async def test_the_first_signal_is_reported_once() -> None:
    reported: list[str] = []

    with StopSignals(signal.SIGUSR1, on_stop=lambda: reported.append("asked")) as signals:
        os.kill(os.getpid(), signal.SIGUSR1)
        async with asyncio.timeout(10):
            await signals.requested.wait()

    assert reported == ["asked"]


async def test_a_process_that_does_not_end_is_ended_with_success() -> None:
    codes: list[int] = []

    exit_after(0, codes.append)

    async def is_ended() -> list[int]:
        return codes

    assert await eventually(is_ended, "the end") == [0]
