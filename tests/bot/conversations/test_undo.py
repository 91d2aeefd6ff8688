"""`/retinue undo`: each user sees and takes back what changed of theirs, and never of another's."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bot.changes import handle, new_id
from bot.conversations.command_table import COMMANDS
from bot.conversations.undo import MOST_SHOWN, Undo
from bot.platforms.base import CommandReply
from bot.values import Identity, Place, Role
from db import audit, whiteboard
from db import commands as stored_commands
from db.audit import Filter
from db.changes import Restorer
from db.commands import StoredCommand
from db.database import Database
from skills import memory, notes
from skills import whiteboard as boards
from skills.base import Skill, ToolContext
from skills.files import skill as files
from skills.files.settings import WorkspaceSettings
from skills.files.undoing import FileChanges
from skills.files.workspaces import Workspaces
from skills.schedules import skill as scheduler
from tests.fakes.calls import Caller
from tests.fakes.clock import FakeClock
from tests.fakes.commands import command_runner
from tests.fakes.office import FakeOffice, caller, limits
from tests.fakes.planned import Plans
from tests.fakes.rows import meet, store_run

ID = re.compile(r"`([0-9a-f]{6})`")


@dataclass
class Desk:
    """The tools and the command of one bot."""

    database: Database
    clock: FakeClock
    folder: Path

    def __post_init__(self) -> None:
        office = FakeOffice(self.database, limits(), self.clock)
        self.plans = Plans(self.database, self.clock)
        self.workspaces = Workspaces(WorkspaceSettings(folder=str(self.folder)))
        found: list[Restorer] = [
            notes.STORE,
            memory.STORE,
            boards.WhiteboardRestorer(self.clock),
            self.plans.book,
        ]
        self.restorers = {each.kind: each for each in found}
        undo = Undo(
            database=self.database,
            restorers=lambda: self.restorers,
            stores=lambda: [FileChanges(self.workspaces, self.clock)],
            now=self.clock,
        )
        self.commands = command_runner(office, undo=undo)

    async def type(self, user: Identity, text: str) -> CommandReply:
        return await self.commands.run(text, caller(user))

    def caller(self, skill: Skill, user: Identity, run_id: str | None = None) -> Caller:
        return Caller(skill, user, self.clock, run_id)

    def notes(self, user: Identity) -> Caller:
        return self.caller(notes.build(self.database), user)

    def files(self, user: Identity, run_id: str | None = None) -> Caller:
        return self.caller(files.build(self.workspaces), user, run_id)


@pytest.fixture
async def desk(
    database: Database, clock: FakeClock, tmp_path: Path, alice: Identity, bob: Identity
) -> Desk:
    for user in (alice, bob):
        await meet(database, user, clock())
    return Desk(database, clock, tmp_path / "workspaces")


async def delete_a_note(desk: Desk, user: Identity, text: str = "Buy eggs") -> None:
    saved = await desk.notes(user).call("note_save", call_id=text, text=text, title="Shopping")
    number = int(re.findall(r"\d+", saved)[0])
    await desk.notes(user).call("note_delete", number=number)


# -- the command -----------------------------------------------------------------------------------


async def test_what_is_undone_is_recorded(desk: Desk, alice: Identity, database: Database) -> None:
    await delete_a_note(desk, alice)

    await desk.type(alice, "/undo last")

    found = await database.read(audit.newest, Filter(action="undo"), limit=9)
    assert [(each.entry.actor, each.entry.subject) for each in found] == [(alice.key, "note")]


@pytest.mark.parametrize(
    "typed", ["/undo", "/retinue undo", "!undo", "!retinue undo", "/UNDO list"]
)
async def test_without_changes_there_is_nothing_to_undo(
    desk: Desk, alice: Identity, typed: str
) -> None:
    reply = await desk.type(alice, typed)

    assert (reply.text, reply.failed) == ("There is nothing to undo.", False)


async def test_the_list_says_what_when_and_by_whom(
    desk: Desk, alice: Identity, database: Database, clock: FakeClock
) -> None:
    run_id = await store_run(database, alice, clock())
    await delete_a_note(desk, alice)
    clock.advance(60)
    await desk.files(alice, run_id).call("file_write", path="a/plan.md", text="1")
    await desk.files(alice, run_id).call("file_write", path="a/plan.md", text="2")

    text = (await desk.type(alice, "/retinue undo")).text

    first, second = (line for line in text.splitlines() if line.startswith("- "))
    assert f"21 Nov 09:01 UTC: replaced `a/plan.md` (by run `{run_id[:8]}`" in first
    assert "21 Nov 09:00 UTC: deleted note 1 “Shopping” (in our conversation)" in second


async def test_a_long_list_is_cut_and_says_so(desk: Desk, alice: Identity) -> None:
    for number in range(MOST_SHOWN + 3):
        await delete_a_note(desk, alice, f"note {number}")

    lines = (await desk.type(alice, "/undo")).text.splitlines()

    assert sum(line.startswith("- `") for line in lines) == MOST_SHOWN
    assert "- 3 older ones: `/retinue undo list NAME` finds them" in lines


async def test_a_change_is_found_by_its_name_however_many_came_after_it(
    desk: Desk, alice: Identity
) -> None:
    mine = desk.files(alice)
    for path in ("plans/Thesis.md", "filler.txt"):
        await mine.call("file_write", path=path, text="important")
    await mine.call("file_write", path="plans/Thesis.md", text="gone")
    for number in range(150):
        await mine.call("file_write", path="filler.txt", text=f"{number}")
        await delete_a_note(desk, alice, f"note {number}")

    listed = (await desk.type(alice, "/retinue undo list thesis")).text
    (found,) = ID.findall(listed)
    restored = await desk.type(alice, f"/retinue undo {found}")
    nothing = await desk.type(alice, "/retinue undo list nothing of that name")

    assert "replaced `plans/Thesis.md`" in listed
    assert "Restored `plans/Thesis.md`." in restored.text
    assert "important" in await mine.call("file_read", path="plans/Thesis.md")
    assert nothing.text == "There is nothing to undo with “nothing of that name”."


async def test_the_last_change_is_the_last_one_of_all_kinds(
    desk: Desk, alice: Identity, clock: FakeClock
) -> None:
    mine = desk.files(alice)
    await mine.call("file_write", path="plan.md", text="1")
    await mine.call("file_write", path="plan.md", text="2")
    clock.advance(1)
    await delete_a_note(desk, alice)

    first = await desk.type(alice, "/undo last")
    second = await desk.type(alice, "/undo last")
    third = await desk.type(alice, "/undo last")

    assert first.text.startswith("Restored note 1 “Shopping”. It is note 1.")
    assert second.text.startswith("Restored `plan.md`.")
    assert (third.text, third.failed) == ("There is nothing to undo.", True)
    assert "1" in await mine.call("file_read", path="plan.md")


async def test_an_undo_names_what_takes_it_back(desk: Desk, alice: Identity) -> None:
    await delete_a_note(desk, alice)
    undone = await desk.type(alice, "/undo last")
    (undo,) = re.findall(r"`/retinue undo ([0-9a-f]+)` takes this back", undone.text)
    listed = (await desk.type(alice, "/undo")).text

    again = await desk.type(alice, f"/retinue undo {undo}")

    assert f"`{undo}` 21 Nov 09:00 UTC: brought back note 1 “Shopping” (by you)" in listed
    assert again.text.startswith("Deleted note 1 “Shopping”. The note is deleted again.")
    assert await desk.notes(alice).call("note_list") == "There are no notes yet."


@pytest.mark.parametrize("typed", ["/undo 1a2b3c", "/undo ../../etc", "/undo a b", "/undo 3"])
async def test_an_unknown_change_is_said_to_be_unknown(
    desk: Desk, alice: Identity, typed: str
) -> None:
    await delete_a_note(desk, alice)

    reply = await desk.type(alice, typed)

    assert reply.failed
    assert "is nothing that can be undone" in reply.text


async def test_a_change_is_undone_once(desk: Desk, alice: Identity) -> None:
    await delete_a_note(desk, alice)
    (change,) = ID.findall((await desk.type(alice, "/undo")).text)
    await desk.type(alice, f"/undo {change}")

    again = await desk.type(alice, f"/undo {change}")

    assert again.failed
    assert "is nothing that can be undone" in again.text


async def test_nobody_sees_or_takes_back_what_is_another_user_s(
    desk: Desk, alice: Identity, bob: Identity
) -> None:
    await delete_a_note(desk, alice)
    await desk.files(alice).call("file_write", path="plan.md", text="1")
    await desk.files(alice).call("file_write", path="plan.md", text="2")
    ids = ID.findall((await desk.type(alice, "/undo")).text)
    unknown = handle(new_id(desk.clock()))

    replies = [(await desk.type(bob, f"/undo {typed}")).text for typed in (*ids, unknown)]

    assert len(ids) == 2
    assert {text.replace(typed, "") for text, typed in zip(replies, (*ids, unknown), strict=True)}
    assert len({re.sub(r"[0-9a-f]{6}", "", text) for text in replies}) == 1
    assert (await desk.type(bob, "/undo")).text == "There is nothing to undo."
    assert len(ID.findall((await desk.type(alice, "/undo")).text)) == 2


async def test_the_help_names_the_command() -> None:
    assert "`/retinue undo [ID]`" in COMMANDS.help("fake")


async def test_a_command_that_is_carried_out_again_after_a_crash_takes_back_one_change(
    desk: Desk, alice: Identity
) -> None:
    mine = desk.files(alice)
    for text in ("1", "2", "3"):
        await mine.call("file_write", path="plan.md", text=text)
    asked = caller(alice, command_id="c1")

    first = await desk.commands.run("/undo last", asked)
    again = await desk.commands.run("/undo last", asked)

    assert first.text.startswith("Restored `plan.md`.")
    assert (again.text, again.failed) == ("It was undone already.", True)
    assert "2" in await mine.call("file_read", path="plan.md")


async def test_a_command_is_applied_in_the_transaction_of_the_undo(
    desk: Desk, alice: Identity, database: Database
) -> None:
    await delete_a_note(desk, alice)
    command = StoredCommand(
        id="c1",
        user=alice,
        place=Place(alice.platform),
        role=Role.USER,
        text="/undo last",
        conversation_id="",
    )
    async with database.transaction() as tx:
        await stored_commands.put(tx, command, "worker", desk.clock())

    await desk.commands.run("/undo last", caller(alice, command_id="c1"))

    async with database.transaction() as tx:
        (left,) = await stored_commands.take_over(
            tx, [], me="other", under_way=set(), platforms=[alice.platform]
        )
    assert left.applied


# -- what comes back -------------------------------------------------------------------------------


async def test_a_deleted_note_is_found_again_under_its_number(desk: Desk, alice: Identity) -> None:
    mine = desk.notes(alice)
    await mine.call("note_save", call_id="a", text="Buy eggs", title="Shopping")
    await mine.call("note_save", call_id="b", text="Another")
    before = await mine.call("note_read", number=1)
    await mine.call("note_delete", number=1)

    await desk.type(alice, "/undo last")

    assert await mine.call("note_read", number=1) == before
    assert "Buy eggs" in await mine.call("note_search", query="eggs")


async def test_a_note_whose_number_is_taken_gets_the_next(desk: Desk, alice: Identity) -> None:
    await delete_a_note(desk, alice)
    await desk.notes(alice).call("note_save", call_id="new", text="New note")

    reply = await desk.type(alice, "/undo last")

    assert "It is note 2." in reply.text
    assert "New note" in await desk.notes(alice).call("note_read", number=1)


async def test_a_note_for_which_there_is_no_room_stays_deleted_and_can_be_restored_later(
    desk: Desk, alice: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    await delete_a_note(desk, alice)
    monkeypatch.setitem(desk.restorers, "note", replace(notes.STORE, most=0))
    full = await desk.type(alice, "/undo last")
    monkeypatch.undo()

    later = await desk.type(alice, "/undo last")

    assert (full.failed, "which is the most" in full.text) == (True, True)
    assert later.text.startswith("Restored note 1")


async def test_a_forgotten_memory_is_known_again_with_where_it_comes_from(
    desk: Desk, alice: Identity, database: Database
) -> None:
    mine = desk.caller(memory.build(database), alice)
    await mine.call("remember_found", text="The shop closes at six", source="its page")
    before = await mine.call("recall")
    await mine.call("forget", number=1)
    assert "Nothing" in await mine.call("recall")

    reply = await desk.type(alice, "/undo last")

    assert reply.text.startswith("Restored memory 1 “The shop closes at six”. It is memory 1.")
    assert await mine.call("recall") == before


async def test_a_cancelled_schedule_goes_on(desk: Desk, alice: Identity) -> None:
    await desk.plans.plan(alice, "Count sheep", cron="0 9 * * *")
    mine = desk.caller(scheduler.build(desk.plans.book), alice)
    before = await mine.call("schedule_list")
    await mine.call("schedule_cancel", number=1)
    assert await mine.call("schedule_list") == "There are no schedules."

    reply = await desk.type(alice, "/undo last")

    assert reply.text.startswith("Restored schedule 1 “Count sheep”. It is due ")
    assert await mine.call("schedule_list") == before


async def test_a_schedule_whose_time_is_over_is_not_restored(
    desk: Desk, alice: Identity, clock: FakeClock
) -> None:
    await desk.plans.plan(alice, "Count sheep", at="in 2 hours")
    await desk.plans.cancel(1, alice)
    clock.advance(3 * 3_600)

    reply = await desk.type(alice, "/undo last")

    assert (reply.text, reply.failed) == ("Its time is over.", True)
    assert ID.findall((await desk.type(alice, "/undo")).text)


class Board:
    """The whiteboard of a run of one user, from both sides."""

    def __init__(self, desk: Desk, user: Identity, run_id: str) -> None:
        async def resolve(context: ToolContext, given: str, /) -> str:
            return given

        self.run_id = run_id
        self.main = desk.caller(boards.build_for_main(desk.database, resolve, desk.clock), user)
        self.run = desk.caller(boards.build_for_runs(desk.database, desk.clock), user, run_id)

    async def read(self, key: str) -> str:
        return await self.run.call("whiteboard_read", key=key)


@pytest.fixture
async def board(desk: Desk, alice: Identity) -> Board:
    return Board(desk, alice, await store_run(desk.database, alice, desk.clock()))


async def test_a_value_that_a_run_replaced_comes_back(
    desk: Desk, board: Board, alice: Identity
) -> None:
    await board.main.call("whiteboard_write", run_id=board.run_id, key="plan", value="input")
    await board.run.call("whiteboard_write", key="plan", value="other")

    reply = await desk.type(alice, "/undo last")

    assert "It is under “plan”." in reply.text
    assert await board.read("plan") == "input"


async def test_what_a_run_writes_over_its_own_values_is_no_change(
    desk: Desk, board: Board, alice: Identity
) -> None:
    for value in ("1", "2", "3"):
        await board.run.call("whiteboard_write", key="progress", value=value)
    await board.run.call("whiteboard_delete", key="progress")

    assert (await desk.type(alice, "/undo")).text == "There is nothing to undo."


async def test_a_value_that_changed_since_stays_and_the_former_one_comes_beside_it(
    desk: Desk, board: Board, alice: Identity
) -> None:
    await board.run.call("whiteboard_write", key="plan", value="result")
    await board.main.call("whiteboard_delete", run_id=board.run_id, key="plan")
    await board.run.call("whiteboard_write", key="plan", value="newer")

    reply = await desk.type(alice, "/undo last")

    assert "It is under “plan.restored-1”." in reply.text
    assert (await board.read("plan"), await board.read("plan.restored-1")) == ("newer", "result")


async def test_a_value_of_a_run_that_is_deleted_cannot_come_back(
    desk: Desk, board: Board, alice: Identity, database: Database
) -> None:
    await board.run.call("whiteboard_write", key="plan", value="result")
    await board.main.call("whiteboard_delete", run_id=board.run_id, key="plan")
    async with database.transaction() as tx:
        await tx.exec_driver_sql("DELETE FROM subagent_runs")

    reply = await desk.type(alice, "/undo last")

    assert (reply.text, reply.failed) == (
        "The run is deleted, and its whiteboard with it.",
        True,
    )


async def test_a_file_that_changed_since_is_not_overwritten_and_the_reply_says_so(
    desk: Desk, alice: Identity
) -> None:
    mine = desk.files(alice)
    for text in ("1", "2", "3"):
        await mine.call("file_write", path="plan.md", text=text)
    oldest = ID.findall((await desk.type(alice, "/undo")).text)[-1]

    reply = await desk.type(alice, f"/undo {oldest}")

    assert reply.text.startswith(
        "`plan.md` is something else by now: its former version is beside it, as "
        "`plan.md.restored-1`."
    )
    assert "1" in await mine.call("file_read", path="plan.md.restored-1")


async def test_a_name_that_looks_like_markup_is_shown_as_a_name(
    desk: Desk, alice: Identity
) -> None:
    name = "`<@everyone>` **x**"
    for text in ("1", "2"):
        await desk.files(alice).call("file_write", path=name, text=text)

    text = (await desk.type(alice, "/undo")).text

    assert "replaced `'<@everyone>' **x**` (" in text


async def test_without_workspaces_the_rest_can_be_undone(desk: Desk, alice: Identity) -> None:
    assert desk.commands.undo is not None
    desk.commands = replace(desk.commands, undo=replace(desk.commands.undo, stores=list))
    await delete_a_note(desk, alice)

    assert (await desk.type(alice, "/undo last")).text.startswith("Restored note 1")


async def test_what_is_switched_off_is_not_restored_and_not_lost(
    desk: Desk, alice: Identity
) -> None:
    await delete_a_note(desk, alice)
    undo = desk.commands.undo
    assert undo is not None
    desk.commands = replace(desk.commands, undo=replace(undo, restorers=dict))

    reply = await desk.type(alice, "/undo last")

    assert (reply.failed, "switched off" in reply.text) == (True, True)
    assert ID.findall((await desk.type(alice, "/undo")).text)


async def test_a_deletion_that_is_rolled_back_leaves_no_change(
    desk: Desk, board: Board, alice: Identity, database: Database
) -> None:
    await board.run.call("whiteboard_write", key="plan", value="result")

    with pytest.raises(Exception, match="the most"):
        await board.main.call(
            "whiteboard_write",
            run_id=board.run_id,
            key="plan",
            value="x" * (whiteboard.MOST_CHARACTERS + 1),
        )

    assert (await desk.type(alice, "/undo")).text == "There is nothing to undo."
