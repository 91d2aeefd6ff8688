"""Durable execution: work that was started is finished, by this process or another.

The only module that uses DBOS. A piece of work is an id and a kind. All its data is in our own
tables, so a repeated attempt reads its rows and continues.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, cast

from sqlalchemy import Engine as SyncEngine
from sqlalchemy.exc import SQLAlchemyError

from bot.engine_library import THREADS, open_pool, quieten
from bot.errors import DatabaseUnreachableError
from bot.events import RunAdmitted
from bot.tasks import Tasks
from db.trouble import reason_of

log = logging.getLogger(__name__)

#: Makes one attempt at a piece of work. It must return once the work has ended or this process
#: cannot continue it.
Work = Callable[[str], Coroutine[Any, Any, None]]

#: Increased by hand when new code can no longer resume work that is in progress.
WORK_VERSION = "1"

#: Poll intervals: of a queue that other processes fill, and of a queue that only holds work left by
#: a crash. Turns always start in the process that receives them; with SQLite all work does.
POLL_SECONDS = 0.1
RARE_POLL_SECONDS = 1.0
MAX_ATTEMPTS = 20
#: Most ended work that is deleted from the engine's record in one transaction.
FORGET_AT_ONCE = 200


class Engine:
    """Starts work, records it, and resumes it after a crash.

    One instance per process. Each kind of work is registered before the engine opens. Each platform
    is a lane of its own, so that work only runs in a process that can deliver its answers.

    Attributes:
        file: The engine's own file; `None` on PostgreSQL.
    """

    file: Path | None = None

    def __init__(
        self, kinds: dict[str, Work], tasks: Tasks, worker_id: str, shared: Sequence[str] = ()
    ) -> None:
        self._kinds = kinds
        self._shared = shared
        self._tasks = tasks
        self._worker_id = worker_id
        self._dbos: Any = None
        self._running: Any = None
        self._draining = False
        self._workflows: dict[str, Any] = {}
        self._active: dict[str, asyncio.Task[Any]] = {}
        #: Work that the engine's record assigns to this process, but that was not active at the
        #: last check.
        self._idle: set[str] = set()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        kinds: dict[str, Work],
        *,
        tasks: Tasks,
        worker_id: str,
        lanes: Sequence[str],
        shared: Sequence[str] = (),
        at_once: int = 200,
    ) -> AsyncIterator[Self]:
        """Launch the engine inside the running loop, so that all work runs on it.

        Args:
            url: The bot's database; on SQLite the engine gets a file of its own beside it.
            kinds: The function for each kind of work.
            tasks: Owns the tasks that the engine starts.
            worker_id: The id of this process, new at each start.
            lanes: The platforms whose work this process may do.
            shared: The kinds of work that several processes take from one queue.
            at_once: The most work of one kind and lane that this process takes from the queue.
        """
        from dbos import DBOS  # noqa: PLC0415 - heavy, and needed only here

        engine = cls(kinds, tasks, worker_id, shared)
        engine._dbos = DBOS
        quieten()
        database = open_pool(url)
        if database.dialect.name == "sqlite":
            engine.file = Path(database.url.database or "")
        else:
            # The launch would migrate on the loop's thread. On PostgreSQL a migration waits for
            # every open transaction, and ours cannot end while the loop is blocked.
            address = database.url.render_as_string(hide_password=False)
            await asyncio.to_thread(DBOS.migrate, address)
        try:
            # Launch inside the block: a failed launch leaves the process's only engine behind.
            engine._launch(database, lanes)
            for kind in kinds:
                for lane in lanes:
                    await DBOS.register_queue_async(
                        _queue(kind, lane),
                        worker_concurrency=at_once,
                        polling_interval_sec=POLL_SECONDS if kind in shared else RARE_POLL_SECONDS,
                        on_conflict="always_update",
                    )
            yield engine
        finally:
            # The library sets its own executor as the loop's default (`to_thread`, name
            # resolution), shuts it down when it closes, and leaves the loop without any. Set ours
            # before as well: the library's takes no more work while it shuts down.
            loop = asyncio.get_running_loop()
            threads = ThreadPoolExecutor(thread_name_prefix="asyncio")
            loop.set_default_executor(threads)
            try:
                # On the loop's thread the call would block the very work that it waits for.
                await asyncio.to_thread(DBOS.destroy, destroy_registry=True)
            finally:
                # Work that was ending may have restored the library's executor meanwhile.
                loop.set_default_executor(threads)
                database.dispose()

    def _launch(self, database: SyncEngine, lanes: Sequence[str]) -> None:
        from dbos import DBOSConfig  # noqa: PLC0415

        config: DBOSConfig = {
            "name": "retinue",
            "system_database_engine": database,
            "system_database_url": database.url.render_as_string(hide_password=False),
            "executor_id": self._worker_id,
            "application_version": WORK_VERSION,
            "serializer": cast("Any", _JsonSerializer()),
            "max_executor_threads": THREADS,
            "notification_listener_polling_interval_sec": 0.05,
            "log_level": "WARNING",
        }
        self._running = self._dbos(config=config)
        for kind, work in self._kinds.items():
            self._workflows[kind] = self._workflow(kind, work)
        self._dbos.listen_queues([_queue(kind, lane) for kind in self._kinds for lane in lanes])
        self._dbos.launch()
        # The library would wait for a lost database in each of its threads, with pauses that grow
        # to 90 s. It has no public setting for this; failed work is retried anyway.
        self._running._sys_db._retry_connection_errors = False  # noqa: SLF001

    def _workflow(self, kind: str, work: Work) -> Any:
        """Register a workflow: one attempt in a task of our own, independent of the engine's.

        When this process drains, the attempt is cancelled. The cancellation is passed on, so that
        the engine records no end and the work stays resumable.
        """

        @self._dbos.workflow(name=kind, max_recovery_attempts=MAX_ATTEMPTS)  # type: ignore[untyped-decorator]
        async def attempt(work_id: str, lane: str) -> None:
            if self._draining:  # taken from the queue just before
                raise asyncio.CancelledError
            task = self._tasks.start(work(work_id), name=f"{kind} {work_id}", fresh_context=True)
            self._active[work_id] = task
            try:
                await asyncio.shield(task)
            finally:
                self._active.pop(work_id, None)

        return attempt

    def drain(self) -> None:
        """Start no more work: work that is due waits for another process or the next start."""
        self._draining = True
        for poller in self._running.background_thread_stop_events:
            poller.set()

    # -- starting --------------------------------------------------------------------------------

    async def start(self, kind: str, work_id: str, lane: str) -> None:
        """Start work at once in this process. The call is idempotent.

        While this process drains, the work is put into the shared queue instead.
        """
        if self._draining:
            await self.submit(kind, work_id, lane)
            return
        start, workflow = self._dbos.start_workflow_async, self._workflows[kind]
        await self._library(start, workflow, work_id, lane, creates=work_id)

    async def submit(self, kind: str, work_id: str, lane: str) -> None:
        """Put work into the queue of its lane, which every worker of the lane polls. Idempotent."""
        enqueue, workflow = self._dbos.enqueue_workflow_async, self._workflows[kind]
        queue = _queue(kind, lane)
        await self._library(enqueue, queue, workflow, work_id, lane, creates=work_id)

    def on_run_admitted(self, event: RunAdmitted) -> None:
        """Start a background run; a delegated run is executed by the turn that waits for it.

        A shared run goes into the queue of its lane.
        """
        if event.mode != "async":
            return
        hand = self.submit if "run" in self._shared else self.start
        work = hand("run", event.run_id, event.platform)
        self._tasks.start(work, name=f"submit {event.run_id}", fresh_context=True)

    # -- watching --------------------------------------------------------------------------------

    async def unknown(self, work_ids: Sequence[str]) -> list[str]:
        """Return the ids that the engine does not know or has given up on.

        This includes work that the engine assigns to this process but that is not active, because
        its end could not be stored. Such an id is returned only at the second check in a row, since
        work that was just claimed is about to begin.
        """
        if not work_ids:
            return []
        known = await self._list(
            workflow_ids=list(work_ids), status=["PENDING", "ENQUEUED", "DELAYED"]
        )
        names = {workflow.workflow_id for workflow in known}
        idle = {
            workflow.workflow_id
            for workflow in known
            if workflow.status == "PENDING"
            and workflow.executor_id == self._worker_id
            and workflow.workflow_id not in self._active
        }
        left = idle & self._idle
        self._idle = (self._idle - set(work_ids)) | idle
        return [work_id for work_id in work_ids if work_id not in names or work_id in left]

    async def revive(self, kind: str, work_id: str, lane: str) -> None:
        """Queue work again that the engine records as ended or does not know."""
        known = await self._list(workflow_ids=[work_id])
        if known and known[0].status == "PENDING":
            await self._library(
                self._dbos.resume_workflows_async, [work_id], queue_name=_queue(kind, lane)
            )
            return
        if known and known[0].status not in {"ENQUEUED", "DELAYED"}:
            await self._library(self._dbos.delete_workflows_async, [work_id])
        await self.submit(kind, work_id, lane)

    async def _list(self, **filters: Any) -> list[Any]:
        listing = self._dbos.list_workflows_async
        found: list[Any] = await self._library(listing, load_output=False, **filters)
        return found

    async def _library(
        self,
        call: Callable[..., Coroutine[Any, Any, Any]],
        *given: Any,
        creates: str = "",
        **named: Any,
    ) -> Any:
        """Call the library outside of any work.

        The coroutine is created inside the task, so that a task cancelled early leaves none behind.

        Args:
            call: The function of the library.
            given: Its arguments.
            creates: The id of the work that the call creates; empty for none.
            named: Further arguments.

        Raises:
            DatabaseUnreachableError: The engine's database is unreachable.
        """
        from dbos import SetWorkflowID  # noqa: PLC0415

        async def guarded() -> Any:
            try:
                with SetWorkflowID(creates) if creates else nullcontext():
                    return await call(*given, **named)
            except SQLAlchemyError as error:
                reason = reason_of(error)
                if reason is None:
                    raise
                raise DatabaseUnreachableError(reason) from error

        return await self._tasks.start(guarded(), name="call the engine", fresh_context=True)

    async def take_over(self, alive: Sequence[str]) -> list[str]:
        """Queue again the unfinished work of processes that are no longer alive.

        Args:
            alive: The ids of the live workers, including this one.

        Returns:
            The ids of the work.
        """
        pending = await self._list(status=["PENDING"], load_input=True)
        left = [item for item in pending if item.executor_id not in {*alive, self._worker_id}]
        by_queue: dict[str, list[str]] = {}
        for item in left:
            try:
                lane = str(item.input["args"][1])
            except (TypeError, KeyError, IndexError):
                log.error("The engine's record of %s cannot be read", item.workflow_id)
            else:
                by_queue.setdefault(_queue(item.name, lane), []).append(item.workflow_id)
        for queue, ids in by_queue.items():
            await self._library(self._dbos.resume_workflows_async, ids, queue_name=queue)
        return [item.workflow_id for item in left]

    async def forget_before(self, moment: datetime) -> bool:
        """Delete one batch of the engine's records of work that ended before a moment.

        Returns:
            True if more records may remain.
        """
        ended = await self._list(
            completed_before=moment.isoformat(),
            status=["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"],
            load_input=False,
            limit=FORGET_AT_ONCE,
        )
        if ended:
            ids = [item.workflow_id for item in ended]
            await self._library(self._dbos.delete_workflows_async, ids)
        return len(ended) == FORGET_AT_ONCE


def _queue(kind: str, lane: str) -> str:
    return f"{kind}-{lane}"


class _JsonSerializer:
    """JSON instead of the library's pickle: write access to the database must not run code."""

    def name(self) -> str:
        return "retinue_json"

    def serialize(self, data: Any) -> str:
        return json.dumps(data, default=self._encode)

    def deserialize(self, serialized_data: str) -> Any:
        return json.loads(serialized_data, object_hook=self._decode)

    @staticmethod
    def _encode(value: Any) -> Any:
        if isinstance(value, datetime):
            return {"__time__": value.astimezone(UTC).isoformat()}
        if isinstance(value, BaseException):
            # Its text may hold messages of users, which belong in our own tables only.
            return {"__error__": type(value).__name__}
        raise TypeError(f"not JSON: {type(value).__name__}")

    @staticmethod
    def _decode(document: dict[str, Any]) -> Any:
        if "__time__" in document:
            return datetime.fromisoformat(document["__time__"])
        if "__error__" in document:
            return RuntimeError(document["__error__"])
        return document
