"""Reports the state of this process to systemd (`Type=notify`, `WatchdogSec=`)."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from bot.tasks import Tasks

log = logging.getLogger(__name__)

READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"


class Supervisor:
    """Reports to the supervisor that started this process; does nothing without one.

    Args:
        environ: The environment variables of the process.
        pid: The id of the process.
    """

    def __init__(self, environ: Mapping[str, str], pid: int) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        meant = environ.get("WATCHDOG_PID", str(pid)) == str(pid)
        period = environ.get("WATCHDOG_USEC", "")
        #: Twice within the time in which systemd expects a sign.
        self.seconds = int(period) / 2_000_000 if meant and period.isdecimal() else 0.0

    @classmethod
    def of_process(cls) -> "Supervisor":
        """Return the supervisor of this process."""
        return cls(os.environ, os.getpid())

    def notify(self, state: str) -> None:
        """Send a state; a supervisor that does not listen is logged and ends nothing."""
        if not self._address:
            return
        address = self._address
        if address.startswith("@"):  # an abstract socket
            address = f"\0{address[1:]}"
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(0)
                sender.sendto(state.encode(), address)
        except OSError as error:
            log.warning("The supervisor is not told %s: %s", state, error.strerror)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Report regularly during the block that the event loop turns: else systemd restarts us."""
        async with Tasks() as tasks:
            if self._address and self.seconds:
                tasks.start(self._report(), name="watchdog", fresh_context=True)
            yield

    async def _report(self) -> None:
        while True:
            self.notify(ALIVE)
            await asyncio.sleep(self.seconds)
