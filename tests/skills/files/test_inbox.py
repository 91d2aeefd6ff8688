"""Copies of attached files lie in the workspace until their message is deleted or time is up."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from bot.changes import Cause
from bot.events import FilesAttached, FilesDeleted
from bot.subagents.retention import RetentionSettings
from bot.tasks import Tasks
from bot.values import ConversationMode, File, Identity, Place
from db import conversations, files
from db.database import Database
from db.rows import remove
from db.tables import files as stored_files
from skills.base import ToolContext, ToolError
from skills.files import cleanup
from skills.files.cleanup import Cleanup
from skills.files.inbox import Inbox
from skills.files.settings import WorkspaceSettings
from skills.files.workspace import Workspace
from skills.files.workspaces import Workspaces
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet
from tests.fakes.patience import PATIENCE_SECONDS
from tests.fakes.stored import Stored
from tests.skills.files.conftest import context_of

THREAD = Place("discord", "guild", "general", "thread")
PLAN = File("plan.md", "", b"Feed the hens")


@dataclass
class Thread:
    """A shared conversation in which files are attached."""

    inbox: Inbox
    outlet: FakeOutlet
    context: ToolContext
    place: Place = THREAD

    async def attach(self, *sent: File) -> None:
        """Store a message with files, and copy them."""
        await self.receive(*sent)
        await self.inbox.tasks.wait_idle(PATIENCE_SECONDS)

    async def receive(self, *sent: File) -> None:
        """Store a message with files, and publish that."""
        user, now = self.context.user, self.context.now()
        await Stored(self.inbox.database, self.context.now).person(user)
        async with self.inbox.database.transaction() as tx:
            mode = ConversationMode(shared=True)
            opened = await conversations.find_or_open(tx, user, self.place, now, mode)
            stored = await conversations.say(tx, opened, role="user", text="Look", now=now)
            await files.put_files(tx, stored, sent, now)
        self.inbox.on_attached(
            FilesAttached(
                message_id=stored, user=user, place=self.place, files_of=self.place.files_key
            )
        )

    async def delete(self, *sent: File) -> None:
        """Publish that a message with these files was deleted."""
        names = tuple((each.name, hashlib.sha256(each.data).hexdigest()) for each in sent)
        self.inbox.on_deleted(FilesDeleted(files=names, files_of=self.place.files_key))
        await self.inbox.tasks.wait_idle(PATIENCE_SECONDS)

    @property
    def workspace(self) -> Workspace:
        """The workspace of the place."""
        return self.inbox.workspaces.of(replace(self.context, place=self.place))


@pytest.fixture
async def thread(
    database: Database, settings: WorkspaceSettings, clock: FakeClock, alice: Identity
) -> AsyncIterator[Thread]:
    outlet, tasks = FakeOutlet("discord"), Tasks()
    small = settings.model_copy(update={"place_bytes": 10_000})
    context = replace(context_of(alice, clock), shared=True)
    yield Thread(
        Inbox(Workspaces(small), database, tasks, {"discord": outlet}, clock), outlet, context
    )
    await tasks.close()


async def test_a_copy_is_deleted_with_its_message(thread: Thread) -> None:
    await thread.attach(PLAN)
    assert thread.workspace.read("inbox/plan.md") == PLAN.data

    await thread.delete(PLAN)

    with pytest.raises(ToolError):
        thread.workspace.read("inbox/plan.md")
    assert thread.inbox.workspaces.changes(THREAD.files_key) == []


async def test_a_file_is_copied_although_the_process_ends_just_then(thread: Thread) -> None:
    await thread.receive(PLAN)
    await thread.inbox.tasks.close()

    assert thread.workspace.read("inbox/plan.md") == PLAN.data


async def test_a_copy_that_was_changed_stays(thread: Thread) -> None:
    await thread.attach(PLAN)
    thread.workspace.write("inbox/plan.md", b"Feed the sheep")

    await thread.delete(PLAN, File("never.md", "", b"copied"))

    assert thread.workspace.read("inbox/plan.md") == b"Feed the sheep"


async def test_a_message_that_is_deleted_while_its_files_are_copied_leaves_none(
    thread: Thread, settings: WorkspaceSettings
) -> None:
    loop, database = asyncio.get_running_loop(), thread.inbox.database

    async def delete() -> None:
        async with database.transaction() as tx:
            await remove(tx, stored_files, stored_files.c.name == PLAN.name)

    class Deleting(Workspaces):
        """Deletes the stored file once it is copied."""

        def put(
            self, owner: str, cause: Cause, path: str, content: bytes, now: Callable[[], datetime]
        ) -> None:
            super().put(owner, cause, path, content, now)
            assert thread.workspace.read(path) == content
            asyncio.run_coroutine_threadsafe(delete(), loop).result(PATIENCE_SECONDS)

    thread.inbox = replace(thread.inbox, workspaces=Deleting(settings))

    await thread.attach(PLAN)

    assert thread.workspace.usage().count == 1, "the folder alone"


async def test_a_file_without_room_is_named_to_its_user_and_the_others_are_copied(
    thread: Thread, alice: Identity
) -> None:
    await thread.attach(File("large.md", "", b"x" * 10_001), PLAN)

    assert [(each.place, each.user) for each in thread.outlet.told] == [(THREAD, alice)]
    assert thread.outlet.told[0].text.startswith("I can read large.md, but there was no room")
    assert thread.workspace.read("inbox/plan.md") == PLAN.data
    assert thread.workspace.usage().count == 2


async def test_files_of_a_place_are_deleted_some_time_after_its_last_message(
    thread: Thread, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "PLACES_AT_ONCE", 1)
    workspaces, settings = thread.inbox.workspaces, RetentionSettings(files_days=10)
    duty = Cleanup(workspaces, thread.inbox.database, settings, clock)
    elsewhere = replace(thread, place=replace(THREAD, thread="elsewhere"))
    further = replace(thread, place=replace(THREAD, thread="further"))
    for each in (thread, elsewhere, further):
        await each.attach(PLAN)
    clock.advance(timedelta(days=9).total_seconds())
    await elsewhere.attach(replace(PLAN, name="new.md"))
    await duty.run()
    assert thread.workspace.read("inbox/plan.md") == PLAN.data

    clock.advance(timedelta(days=2).total_seconds())
    await duty.run()

    assert [each.workspace.usage().count for each in (thread, further)] == [0, 0]
    assert elsewhere.workspace.read("inbox/plan.md") == PLAN.data
