"""Runs each command of an agent in a new sandbox, and cleans up afterwards."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AsyncExitStack, ExitStack, closing, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ParamSpec, TypeVar

from bot.errors import BotError, ToolError
from bot.tasks import Tasks
from skills.files.snapshot import MergeResult, Snapshot
from skills.files.workspace import Workspace
from skills.shell.cgroups import Cgroups
from skills.shell.handles import Layer, StartFiles, opened_process
from skills.shell.host import Host
from skills.shell.output import CommandOutput, OutputBuffer
from skills.shell.recipe import (
    AROUND_A_COMMAND,
    NOTHING_SHOWN,
    LayerLimits,
    ShownFolders,
    account_of,
    command_line,
)
from skills.shell.settings import MEGABYTE, ShellSettings
from skills.shell.slots import FairSlots
from skills.shell.watchdog import Allowance, ResourceUsage, Watchdog

#: Timeouts for bubblewrap to start, and to end after it was killed.
START_SECONDS, END_SECONDS = 10.0, 5.0
#: Longest wait for a slot, in seconds.
QUEUE_SECONDS = 120.0
_PIECE = 65_536
_GLANCE_SECONDS = 0.003
#: Environment of the programs around the sandbox; it includes nothing of the bot's own.
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

P = ParamSpec("P")
R = TypeVar("R")


class NotStartedError(BotError):
    """The sandbox did not start; the text has the cause as reported by bubblewrap."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command.

    Attributes:
        code: Its exit code; more than 128 when a signal ended it.
        output: Its output, errors included.
        reason: The reason why the bot ended it; empty when it ended by itself.
        files: The outcome of merging its changes to files.
    """

    code: int
    output: CommandOutput
    reason: str = ""
    files: MergeResult = field(default_factory=MergeResult)


@dataclass(frozen=True, slots=True)
class _Command:
    """A command to run, its timeout, the folders that it sees, and an event that ends it."""

    text: str
    seconds: float
    shown: ShownFolders
    stop: asyncio.Event


@dataclass(frozen=True, slots=True)
class _Started:
    """A sandbox whose command may not have begun yet."""

    process: Process
    handed: StartFiles
    snapshot: Snapshot
    limits: LayerLimits


@dataclass(eq=False)
class Sandbox:
    """Runs each command in a new sandbox. Made by `skills.shell.selftest`, which tests it.

    Attributes:
        host: This machine.
        settings: The limits of a command.
        executor: Runs blocking checks of processes and disks.
        is_overlay: The command's writes go to an overlay over the workspace; otherwise the command
            works on a copy in memory.
        groups: Gives each command a cgroup with limits; `None` where the system allows none.
        no_groups: The reason for `None`.
    """

    host: Host
    settings: ShellSettings
    executor: Executor
    _: KW_ONLY
    is_overlay: bool = True
    groups: Cgroups | None = None
    no_groups: str = ""
    _tasks: Tasks = field(default_factory=Tasks)
    _slots: FairSlots = field(init=False)

    def __post_init__(self) -> None:
        at_once = commands_at_once(self.settings)
        self._slots = FairSlots(at_once, self.settings.at_once_per_user or max(1, at_once // 2))

    async def run(
        self,
        command: str,
        workspace: Workspace,
        *,
        user: str = "",
        seconds: float | None = None,
        shown: ShownFolders = NOTHING_SHOWN,
    ) -> CommandResult:
        """Run a command and wait for its end. The command is killed when the caller is cancelled.

        The command's changes are merged into the workspace at its end, however it ends; while it
        runs, the workspace shows only the changes of others.

        Call it from the main thread's loop: the sandbox ends with the thread that started it.

        Args:
            command: A shell script.
            workspace: The files that it sees and may change.
            user: The key of the user whose share of the slots it takes.
            seconds: Its timeout.
            shown: The folders of the bot that it sees, which must not change meanwhile.

        Raises:
            NotStartedError: The sandbox did not start; nothing was run.
            SlotsBusyError: No slot became free in time; nothing was run.
            ToolError: Others were writing to the workspace for too long; nothing was run.
        """
        seconds = seconds or self.settings.default_seconds
        stop = asyncio.Event()
        todo = _Command(command, seconds, shown, stop)
        async with self._slots.hold(user, seconds=QUEUE_SECONDS):
            # In a task of its own, so that a cancellation cannot interrupt the setup of a sandbox
            # midway.
            work = self._tasks.start(self._work(todo, workspace), name="command")
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                stop.set()
                await asyncio.wait({work})
                raise
        ended: CommandResult | BotError = work.result()
        if isinstance(ended, BotError):
            raise ended
        return ended

    async def _work(self, command: _Command, workspace: Workspace) -> CommandResult | BotError:
        try:
            snapshot = await self._in_thread(self._snapshot_of, workspace)
            try:
                return await self._run_on(snapshot, command)
            finally:
                await self._in_thread(snapshot.close)
        except ToolError as error:
            return error
        except OSError as error:
            return NotStartedError(str(error))

    async def _in_thread(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.executor, lambda: work(*args, **kwargs))

    def _snapshot_of(self, workspace: Workspace) -> Snapshot:
        account = None
        if self.host.is_root:
            with workspace.opened() as folder:
                account = account_of(str(workspace.path.absolute()), os.fstat(folder).st_uid)
        return Snapshot(workspace, account)

    async def _run_on(
        self, snapshot: Snapshot, command: _Command
    ) -> CommandResult | NotStartedError:
        limits = LayerLimits(
            # The layer counts as memory of the command, which needs some for itself.
            size=min(snapshot.quota.size, self.settings.memory_mb * MEGABYTE // 2),
            # Removing a file takes an inode too: the limit lets a full workspace be cleared. The
            # layer needs some for itself.
            count=max(snapshot.quota.count, len(snapshot)) + (5 if self.is_overlay else 3),
            is_overlay=self.is_overlay,
        )
        async with AsyncExitStack() as stack:
            handed = stack.enter_context(closing(StartFiles()))
            handed.fill(self.host, self.settings, command.text, limits, command.shown)
            group = None
            if self.groups is not None:
                # The kernel's count includes the files of /tmp and /dev/shm, which have their own
                # limits.
                megabytes = self.settings.memory_mb + 2 * self.settings.temporary_mb
                processes = self.settings.processes + AROUND_A_COMMAND
                making = self.groups.command(megabytes * MEGABYTE, processes)
                group = await stack.enter_async_context(making)
            line = command_line(
                self.host,
                self.settings,
                handed.descriptors,
                account=snapshot.account,
                seconds=command.seconds,
                layer=limits,
                group=group,
                shown=command.shown,
            )
            process = await asyncio.create_subprocess_exec(
                *line,
                stdin=handed.start_signal,
                stdout=PIPE,
                stderr=STDOUT,
                env=_ENVIRONMENT,
                cwd=snapshot.path,
                pass_fds=handed.descriptors.all,
                start_new_session=True,
            )
            handed.started()
            ended = await self._supervise(_Started(process, handed, snapshot, limits), command)
            if self.groups is None or group is None or not isinstance(ended, CommandResult):
                return ended
            if ended.reason or not self.groups.killed_for_memory(group):
                return ended
            allowance = Allowance(self.settings, command.seconds)
            return replace(ended, reason=allowance.exceeded(ResourceUsage(memory=1 << 62)))

    async def _supervise(
        self, started: _Started, command: _Command
    ) -> CommandResult | NotStartedError:
        kept = OutputBuffer(self.settings.shown_kb * 1024)
        process = started.process

        async def drain() -> None:
            assert process.stdout is not None
            while piece := await process.stdout.read(_PIECE):
                kept.add(piece)

        async with asyncio.TaskGroup() as group:
            # Read to the end: a command whose output is not read would block for ever.
            draining = group.create_task(drain(), name="read a command's output")
            waiting = group.create_task(process.wait(), name="wait for a command")
            try:
                ended = await self._run_to_end(group, waiting, started, command, kept)
            finally:
                # A command that has not begun never begins after this, and its sandbox ends by
                # itself. Killing bubblewrap before it has reported its first process could leave
                # that process waiting for ever.
                started.handed.close()
                await asyncio.wait({draining, waiting}, timeout=END_SECONDS)
                with suppress(ProcessLookupError):
                    process.kill()
                await asyncio.wait({draining, waiting}, timeout=END_SECONDS)
        if isinstance(ended, NotStartedError):
            return ended
        if ended is None:
            lines = [line.strip() for line in kept.output.head.splitlines() if line.strip()]
            return NotStartedError(lines[-1] if lines else "it said nothing")
        reason, files = ended
        code = -signal.SIGKILL if process.returncode is None else process.returncode
        return CommandResult(code if code >= 0 else 128 - code, kept.output, reason, files)

    async def _run_to_end(
        self,
        group: asyncio.TaskGroup,
        waiting: "asyncio.Task[int]",
        started: _Started,
        command: _Command,
        kept: OutputBuffer,
    ) -> tuple[str, MergeResult] | NotStartedError | None:
        """Let the command begin, wait for its end, and merge its changes.

        Returns:
            The reason why it was ended, with the outcome of its changes; `None` when it has not
            begun.
        """
        first = await _poll(lambda: started.handed.first_process, waiting)
        if first is None:
            return None
        with opened_process(first) as inside, ExitStack() as stack:
            try:
                # The sandbox is complete, and bound to the life of the bot.
                if not await _poll(lambda: inside.bound, waiting):
                    return None
                layer = await self._in_thread(Layer, started.process.pid, started.limits)
                stack.callback(layer.close)
                if not self.is_overlay:
                    await self._in_thread(started.snapshot.copy_into, layer.descriptor)
                if command.stop.is_set() or not started.handed.begin():
                    return None
                allowance = Allowance(self.settings, command.seconds)
                watchdog = Watchdog(allowance, layer, first, lambda: kept.total, self.executor)
                watching = group.create_task(watchdog.watch(), name="watch a command")
                stopping = group.create_task(command.stop.wait(), name="wait for a stop")
                try:
                    ends = {waiting, watching, stopping}
                    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    stopping.cancel()
                    over = watching.done()
                    watching.cancel()
                reason = watching.result() if over else ""
            except OSError as error:
                return NotStartedError(str(error))
            finally:
                inside.kill()
                await inside.gone()
            # No process that could change the layer is left now.
            return reason, await self._in_thread(started.snapshot.merge, layer.descriptor)


def commands_at_once(settings: ShellSettings) -> int:
    """Return the limit of concurrent commands."""
    return settings.at_once or 2 * (os.cpu_count() or 1)


async def _poll(look: Callable[[], R], waiting: "asyncio.Task[int]") -> R | None:
    """Poll `look` until it returns a value; `None` if the sandbox ends or after `START_SECONDS`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while not waiting.done():
                if seen := look():
                    return seen
                # Bubblewrap reports only its beginning, so no event can replace this poll.
                await asyncio.sleep(_GLANCE_SECONDS)
    return None
