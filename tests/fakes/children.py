"""Processes of the bot, for tests: each can be killed, and shares nothing with the test.

They run a module as `python -m` does, but are forked from a process that has imported the bot and
its libraries already: that takes longer than most of what they are started for. One that was
forked ends without what an interpreter does at its end.
"""

import asyncio
import multiprocessing
import os
import resource
import runpy
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import reduction
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, BinaryIO

#: What takes long to import; not what is run.
IMPORTED = [
    "aiohttp",
    "anthropic",
    "bot.app",
    "bot.processes",
    "skills.mcp.approvals",
    "bot.platforms.discord.platform",
    "bot.platforms.slack.platform",
    "openai",
    "tests.stories.stage",
]
_forking, _fresh = multiprocessing.get_context("forkserver"), multiprocessing.get_context("spawn")
_forking.set_forkserver_preload(IMPORTED)


@dataclass(eq=False, slots=True)
class Child:
    """A process that runs a module.

    Attributes:
        stdin: What it reads; not buffered.
        stdout: What it writes.
        stderr: What it writes there.
    """

    stdin: BinaryIO
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    _process: BaseProcess

    @classmethod
    async def start(
        cls,
        module: str,
        *arguments: str,
        folder: Path | None = None,
        environ: dict[str, str] | None = None,
        fresh: bool = False,
        file_bytes: int | None = None,
    ) -> "Child":
        """Begin one.

        Args:
            module: To be run.
            arguments: For it.
            folder: Where it works; here, unless it is given.
            environ: The variables of its environment; ours, unless they are given.
            fresh: Let it import everything itself.
            file_bytes: Largest file that it may write, until `limit_files` changes that.
        """
        pipes = [os.pipe() for _ in range(3)]
        (its_input, stdin), (stdout, its_output), (stderr, its_errors) = pipes
        its = (its_input, its_output, its_errors)
        given = (
            [module, *arguments],
            folder or Path.cwd(),
            environ or dict(os.environ),
            file_bytes,
        )

        def begin() -> BaseProcess:
            context = _fresh if fresh else _forking
            # None outlives this process, whatever became of the test.
            process = context.Process(target=_run, args=(_Streams(its), *given), daemon=True)
            process.start()
            return process

        try:
            # The first one waits for the imports.
            process = await asyncio.to_thread(begin)
        except BaseException:
            for each in (stdin, stdout, stderr):
                os.close(each)
            raise
        finally:
            for each in its:
                os.close(each)
        return cls(
            os.fdopen(stdin, "wb", buffering=0),
            await _reader(stdout),
            await _reader(stderr),
            process,
        )

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, or minus the number of the signal that ended it; `None` until then."""
        return self._process.exitcode

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def limit_files(self, largest: int) -> None:
        """Change the size of the largest file that it may write."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (largest, hard))

    async def wait(self) -> int:
        """Wait until it is over, and return its exit code."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._process.sentinel, over.set)
        try:
            await over.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        self._process.join()  # it is closing its last files, or is gone
        assert self.returncode is not None
        return self.returncode

    async def close(self) -> None:
        """Kill what is left of it."""
        if self.returncode is None:
            self._process.kill()
        await self.wait()
        with suppress(OSError):
            self.stdin.close()


class _Streams:
    """The three streams of a process on their way to it."""

    def __init__(self, streams: Sequence[int]) -> None:
        self._streams = streams

    def __reduce__(self) -> tuple[object, ...]:
        return _arrived, tuple(reduction.DupFd(each) for each in self._streams)

    def take(self) -> None:
        """Let them be those of this process."""
        for number, each in enumerate(self._streams):
            os.dup2(each, number)
            os.close(each)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)


def _arrived(*streams: Any) -> _Streams:
    return _Streams([each.detach() for each in streams])


def _run(
    streams: _Streams,
    command: list[str],
    folder: Path,
    environ: dict[str, str],
    file_bytes: int | None,
) -> None:
    streams.take()
    if file_bytes is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, hard))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)


async def _reader(end: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(end, "rb")
    )
    return reader
