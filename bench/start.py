"""How long the program takes to start, as `make chat` starts it: a fresh process each time."""

import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

from bench.stage import ROOT
from bench.table import Row, Scale

NAME = "bench"
PROMPT = f"{NAME}>".encode()
WINDOW = (40, 120)
PATIENCE_SECONDS = 30.0
#: A terminal is asked where its cursor stands, and must say so.
WHERE, HERE = b"\x1b[6n", b"\x1b[1;1R"


async def rows(scale: Scale) -> list[Row]:
    """Return the figures."""
    _compile()
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment(Path(folder))
        check = _median(lambda: _check(folder, environment), scale.starts)
        _chat(folder, environment)  # makes the database
        chat = _median(lambda: _chat(folder, environment), scale.starts)
    return [
        Row("`python -m bot check`", "≤ 1.0 s", f"{check:.2f} s"),
        Row("chat ready (the prompt stands)", "≤ 1.5 s", f"{chat:.2f} s", "openclaw about 8 s"),
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


def _median(measured: Callable[[], float], times: int) -> float:
    return statistics.median(measured() for _ in range(times))


def _check(folder: str, environment: dict[str, str]) -> float:
    start = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "bot", "check"],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.monotonic() - start


def _chat(folder: str, environment: dict[str, str]) -> float:
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
        ready = _until_prompt(ours, start) - start
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
