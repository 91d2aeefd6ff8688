"""The CPU and the time that the program takes to start: a fresh process each time."""

import os
import pty
import resource
import select
import statistics
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.stage import ROOT
from bench.table import Row, Scale

NAME = "bench"
PROMPT = f"{NAME}>".encode()
WINDOW = (40, 120)
PATIENCE_SECONDS = 30.0
#: A terminal is asked where its cursor stands, and must say so.
WHERE, HERE = b"\x1b[6n", b"\x1b[1;1R"


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds until a process is ready: of its CPU, and by the clock."""

    cpu: float
    clock: float

    def __str__(self) -> str:
        return f"{self.cpu:.2f} s of CPU, {self.clock:.2f} s by the clock"


async def rows(scale: Scale) -> list[Row]:
    """Return the figures."""
    _compile()
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment(Path(folder))
        check = _median(lambda: _check(folder, environment), scale.starts)
        _chat(folder, environment)  # makes the database
        chat = _median(lambda: _chat(folder, environment), scale.starts)
    return [
        Row("`python -m bot check`", "≤ 0.4 s of CPU", str(check)),
        Row("chat ready (the prompt stands)", "≤ 0.9 s of CPU", str(chat)),
    ]


def _compile() -> None:
    """Compile the bot's own code, as `make chat` does; installing compiled the libraries."""
    folders = ["bot", "db", "skills", "migrations"]
    compiling = [sys.executable, "-m", "compileall", "-q", *folders]
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(compiling, cwd=ROOT, env=environment, check=True)


def _environment(folder: Path) -> dict[str, str]:
    """Return a newcomer's environment: no key, no configuration but where the data goes."""
    config = folder / "config.yaml"
    config.write_text(f"database:\n  url: sqlite:///{folder / 'data' / 'retinue.db'}\n", "utf-8")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "RETINUE_CONFIG": str(config),
        "TERM": "xterm-256color",
        "PYTHONUTF8": "1",
    }


def _median(measured: Callable[[], Start], times: int) -> Start:
    found = [measured() for _ in range(times)]
    return Start(
        statistics.median(each.cpu for each in found),
        statistics.median(each.clock for each in found),
    )


def _check(folder: str, environment: dict[str, str]) -> Start:
    start, used = time.monotonic(), _of_children()
    subprocess.run(
        [sys.executable, "-m", "bot", "check"],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return Start(_of_children() - used, time.monotonic() - start)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _of_process(process: int) -> float:
    """Return the seconds of CPU of a process that runs."""
    fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _chat(folder: str, environment: dict[str, str]) -> Start:
    """Start a chat at a terminal of its own and return when its prompt is shown."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, WINDOW)
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "bot", "chat", "--as", NAME],
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        clock = _until_prompt(ours, start) - start
        ready = Start(_of_process(process.pid), clock)
        os.write(ours, b"/quit\r")
        _until_closed(ours, process)
        return ready
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _until_prompt(terminal: int, start: float) -> float:
    shown = b""
    while time.monotonic() - start < PATIENCE_SECONDS:
        shown += _read(terminal)
        if PROMPT in shown:
            return time.monotonic()
        if WHERE in shown:
            shown = shown.replace(WHERE, b"")
            os.write(terminal, HERE)
    raise TimeoutError(f"The chat showed no prompt, but {shown[-2000:]!r}")


def _until_closed(terminal: int, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < end:
        if WHERE in _read(terminal):
            os.write(terminal, HERE)


def _read(terminal: int) -> bytes:
    ready, _, _ = select.select([terminal], [], [], 0.1)
    if not ready:
        return b""
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed
        return b""
