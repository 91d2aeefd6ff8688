"""Runs a command of an agent in a sandbox of its own, and leaves nothing behind."""

import asyncio
import os
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from bot.errors import BotError
from bot.sandbox.folders import contents_of, hand_over
from bot.sandbox.handles import Handed, Inside, held
from bot.sandbox.host import Host
from bot.sandbox.output import Kept, Output
from bot.sandbox.recipe import account_of, command_line
from bot.sandbox.settings import Room, ShellSettings
from bot.sandbox.slots import FairSlots
from bot.sandbox.watchdog import Allowance, Watchdog, disk_left
from bot.tasks import Tasks

#: How long bubblewrap may take to begin, and to end once it was killed.
START_SECONDS, END_SECONDS = 10.0, 5.0
#: Longest wait for a slot, in seconds.
QUEUE_SECONDS = 120.0
_PIECE = 65_536
_GLANCE_SECONDS = 0.003
#: For the programs around the sandbox; nothing of the bot's own environment goes there.
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

P = ParamSpec("P")
R = TypeVar("R")


class NotStartedError(BotError):
    """The sandbox did not come up; the text has the cause as bubblewrap tells it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        code: What it returned; more than 128 when a signal ended it.
        output: What it printed, errors included.
        reason: Why we ended it; empty when it ended by itself.
    """

    code: int
    output: Output
    reason: str = ""


class Sandbox:
    """Runs commands, each in a sandbox of its own. Made by `bot.sandbox.selftest`, which tries it.

    Args:
        host: This machine.
        settings: What a command may use.
        room: What one person's files may take.
        executor: Looks at processes and disks, beside the event loop.
    """

    def __init__(self, host: Host, settings: ShellSettings, room: Room, executor: Executor) -> None:
        self.settings = settings
        self.host = host
        self._room = room
        self._executor = executor
        self._tasks = Tasks()
        at_once = commands_at_once(settings)
        self._slots = FairSlots(at_once, settings.at_once_per_user or max(1, at_once // 2))

    async def run(
        self,
        command: str,
        folder: Path,
        *,
        user: str = "",
        seconds: float | None = None,
        counted: Path | None = None,
    ) -> Ended:
        """Run a command and wait for its end. When the caller is cancelled, it is killed.

        Call it from the main thread's loop: the sandbox ends with the thread that started it.

        Args:
            command: A shell script.
            folder: The workspace: the only thing outside that it sees and may change.
            user: The key of the user whose share of the slots it takes.
            seconds: The time that it has.
            counted: The folder with all that is its person's, `folder` among it; what is there may
                not grow beyond the room. `folder` alone by default.

        Raises:
            NotStartedError: The sandbox did not come up; nothing was run.
            SlotsBusyError: No slot became free in time; nothing was run.
        """
        seconds = seconds or self.settings.default_seconds
        stop = asyncio.Event()
        async with self._slots.hold(user, seconds=QUEUE_SECONDS):
            # In a task of its own: half-made sandboxes are not to be broken off anywhere.
            work = self._tasks.start(
                self._work(command, folder, counted or folder, seconds, stop), name="command"
            )
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                stop.set()
                await asyncio.wait({work})
                raise
        ended: Ended | NotStartedError = work.result()
        if isinstance(ended, NotStartedError):
            raise ended
        return ended

    async def _work(
        self, command: str, folder: Path, counted: Path, seconds: float, stop: asyncio.Event
    ) -> Ended | NotStartedError:
        try:
            folder, account, allowance = await self._beside(self._prepare, folder, counted, seconds)
            with closing(Handed()) as handed:
                handed.fill(self.host, self.settings, command, str(folder), account)
                process = await self._start(handed, folder, account, seconds)
                handed.started()
                return await self._attend(process, handed, allowance, counted, stop)
        except OSError as error:
            return NotStartedError(str(error))

    async def _beside(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: work(*args, **kwargs))

    def _prepare(
        self, folder: Path, counted: Path, seconds: float
    ) -> tuple[Path, int | None, Allowance]:
        folder = folder.absolute()
        most = 2 * self._room.count
        account = None
        if self.host.is_root:
            account = account_of(str(folder), folder.stat().st_uid)
            hand_over(folder, account, most)
        before = contents_of(counted, most)
        return (
            folder,
            account,
            Allowance(self.settings, self._room, seconds, before, disk_left(counted)),
        )

    async def _start(
        self, handed: Handed, folder: Path, account: int | None, seconds: float
    ) -> Process:
        line = command_line(
            self.host, self.settings, handed.descriptors, account=account, seconds=seconds
        )
        return await asyncio.create_subprocess_exec(
            *line,
            stdin=handed.leash,
            stdout=PIPE,
            stderr=STDOUT,
            env=_ENVIRONMENT,
            cwd=folder,
            pass_fds=handed.descriptors.all,
            start_new_session=True,
        )

    async def _attend(
        self,
        process: Process,
        handed: Handed,
        allowance: Allowance,
        counted: Path,
        stop: asyncio.Event,
    ) -> Ended | NotStartedError:
        kept = Kept(self.settings.shown_kb * 1024)
        reason: str | None = None
        async with asyncio.TaskGroup() as group:
            # To the very end: a command that finds nobody reading waits for ever.
            draining = group.create_task(_drain(process, kept), name="read a command's output")
            waiting = group.create_task(process.wait(), name="wait for a command")
            try:
                first = await _first_process(handed, waiting)
                if first is not None:
                    dog = Watchdog(allowance, counted, first, lambda: kept.total, self._executor)
                    with held(first) as inside:
                        came_up = await _came_up(inside, waiting)
                        if came_up and not stop.is_set() and handed.begin():
                            reason = await _until_over(group, waiting, dog, stop)
                        inside.kill()
                        await inside.gone()
            finally:
                # What has not begun never does now, and ends by itself. To kill bubblewrap before
                # it has told its first process could leave that one waiting for ever.
                handed.close()
                await asyncio.wait({draining, waiting}, timeout=END_SECONDS)
                _kill(process)
                await asyncio.wait({draining, waiting}, timeout=END_SECONDS)
        if reason is None:
            return NotStartedError(_cause(kept.output))
        return Ended(_code(process), kept.output, reason)


def commands_at_once(settings: ShellSettings) -> int:
    """Return how many commands may run at the same time."""
    return settings.at_once or 2 * (os.cpu_count() or 1)


async def _first_process(handed: Handed, waiting: "asyncio.Task[int]") -> int | None:
    """Return the first process inside; `None` when it does not come to that."""
    return await _seen(lambda: handed.first_process, waiting)


async def _came_up(inside: Inside, waiting: "asyncio.Task[int]") -> bool:
    """Wait until the sandbox is complete and bound to our life."""
    return bool(await _seen(lambda: inside.bound, waiting))


async def _seen(look: Callable[[], R], waiting: "asyncio.Task[int]") -> R | None:
    """Look until there is something, as long as the sandbox is there, and not for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while not waiting.done():
                if seen := look():
                    return seen
                # There is nothing to be told by: bubblewrap says only when it begins.
                await asyncio.sleep(_GLANCE_SECONDS)
    return None


async def _until_over(
    group: asyncio.TaskGroup, waiting: "asyncio.Task[int]", dog: Watchdog, stop: asyncio.Event
) -> str:
    """Wait until the command has ended or must end, and return why it must; empty if it has."""
    watching = group.create_task(dog.watch(), name="watch a command")
    stopping = group.create_task(stop.wait(), name="wait for a stop")
    try:
        await asyncio.wait({waiting, watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        over = watching.done()
        watching.cancel()
    return watching.result() if over else ""


def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()


async def _drain(process: Process, kept: Kept) -> None:
    assert process.stdout is not None
    while piece := await process.stdout.read(_PIECE):
        kept.add(piece)


def _code(process: Process) -> int:
    code = process.returncode
    return 137 if code is None else code if code >= 0 else 128 - code


def _cause(output: Output) -> str:
    lines = [line.strip() for line in output.head.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
