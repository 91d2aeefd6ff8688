"""People see their own runs, whatever they type; admins see all, and it is written down."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from bot.agent.messages import (
    Answer,
    Message,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
    to_json,
)
from bot.errors import AmbiguousError, NotAllowedError, NotFoundError
from bot.subagents.records import Records
from bot.subagents.requests import Caller
from bot.tasks import Tasks
from bot.values import Identity, Json, Place, Role, RunStatus, short
from db import run_messages, runs
from db.database import Database, DatabaseSettings
from db.rows import place_columns
from db.runs import Run
from db.steps import Step, StepWriter
from db.tables import audit
from skills.subagents import _watching as watching_tools
from tests.fakes.around import caller as tool_caller
from tests.fakes.clock import FakeClock
from tests.fakes.office import caller, model_of
from tests.fakes.stored import Stored
from tests.fakes.watched_database import WatchedDatabase

TALK = (
    UserMessage("Count <b>"),
    Answer(text="Let me look.", calls=(ToolCall("1", "look", {"at": "sheep"}),)),
    ToolResults((ToolResult("1", "three"), ToolResult("2", "gone", failed=True)), note="Hurry."),
    Answer(text="Three."),
)
LINES = [
    "task: Count sheep",
    "told: Count <b>",
    "said: Let me look.",
    "→ look(at: sheep)",
    "← three",
    "✗ gone",
    "told: Hurry.",
    "said: Three.",
]


@pytest.fixture
async def database(database_settings: DatabaseSettings) -> AsyncIterator[Database]:
    one = database_settings.model_copy(update={"pool_size": 1})
    async with WatchedDatabase.open(one) as opened:
        yield opened


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)


@pytest.fixture
def records(database: Database, clock: FakeClock) -> Records:
    return Records(database, clock)


def admin(user: Identity) -> Caller:
    return caller(user, role=Role.OPERATOR)


async def audited(database: Database) -> list[tuple[str, str, str, str, str]]:
    async with database.snapshot() as tx:
        rows = await tx.execute(select(audit))
        return [(row.user_id, row.action, row.owner_id, row.subject, row.effect) for row in rows]


async def find(records: Records, handle: str, who: Caller) -> Run:
    return await records.find(handle, who, action="info")


# -- finding ---------------------------------------------------------------------------------------


async def test_a_run_is_found_by_whatever_its_owner_types(
    records: Records, stored: Stored, alice: Identity
) -> None:
    run = await stored.run(alice, label="Berlin weather")
    other = await stored.run(alice, label="50% off")

    for handle in (
        run.id,
        f" {short(run.id).upper()} ",
        f"`{short(run.id)}`",
        '"berlin weather"',
        "“Berlin”",
        "#1",
        "Berl\0in\u200b".replace("\0", ""),
    ):
        assert await find(records, handle, caller(alice)) == run
    for handle in ("last", "LAST", "#2", "50%", "%"):
        assert await find(records, handle, caller(alice)) == other
    assert await audited(records.database) == []


async def test_several_that_fit_are_listed(
    records: Records, stored: Stored, alice: Identity
) -> None:
    several = [await stored.run(alice, label=f"weather {number}") for number in range(2)]

    with pytest.raises(AmbiguousError) as caught:
        await find(records, "weather", caller(alice))

    assert "fits several runs" in str(caught.value)
    for run in several:
        assert f"- {short(run.id)} “{run.label}” (starting)" in str(caught.value)


async def test_the_run_of_another_and_one_that_is_not_there_are_answered_alike(
    records: Records, stored: Stored, alice: Identity, bob: Identity
) -> None:
    run = await stored.run(alice, label="secret")
    answers = set()

    for handle in (run.id, "secret", "00000000-0000-4000-8000-000000000000", "", "\0", "x" * 9999):
        for ask in (records.find(handle, caller(bob), action="info"),):
            with pytest.raises(NotFoundError) as caught:
                await ask
            answers.add(str(caught.value).replace(handle.strip(), ""))

    assert all("You have no run “" in answer for answer in answers)
    with pytest.raises(NotFoundError):
        await records.info(run.id, caller(bob))
    with pytest.raises(NotFoundError):
        await records.log(run.id, caller(bob))
    assert await audited(records.database) == []


async def test_an_admin_finds_the_run_of_another_and_that_is_written_down(
    records: Records, stored: Stored, alice: Identity, bob: Identity
) -> None:
    run = await stored.run(alice, label="secret")
    await stored.person(bob)

    assert await find(records, "secret", admin(bob)) == run
    with pytest.raises(NotFoundError):
        await find(records, "Last", admin(bob))
    mine = await stored.run(bob, label="secret too")
    assert await find(records, "secret", admin(bob)) == mine

    assert await audited(records.database) == [(bob.key, "view", alice.key, run.id, "info")]


async def test_an_admin_of_a_server_reaches_only_what_began_there(
    records: Records, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    here, there = Place("discord", "7001", "hall"), Place("discord", "7002", "yard")
    counts = {"input_tokens": 5, "agent": "coder", "model": "big"}
    seen = await stored.run(alice, label="seen", cost=40, **counts, **place_columns(here))
    hidden = await stored.run(alice, label="hidden", cost=2, **counts, **place_columns(there))
    mine = await stored.run(bob, label="mine", **place_columns(there))
    over = await stored.run(
        alice, label="over", status="failed", completed_at=clock(), **place_columns(here)
    )
    clock.advance(1)
    local = caller(bob, role=Role.ADMIN, place=here)
    elsewhere = caller(bob, role=Role.ADMIN, place=Place("discord", "", "direct"))

    assert await records.list(local, everyone=True) == ([seen], [over])
    assert await find(records, "seen", local) == seen
    assert await find(records, "mine", local) == mine
    for handle in (hidden.id, "hidden", short(hidden.id)):
        with pytest.raises(NotFoundError):
            await find(records, handle, local)
    everyones = await records.spending(local, everyone=True)
    table = await records.spending_table(local)
    assert [each.cost for each in everyones.top["user"]] == [40]
    assert [each.cost for each in table if each.cost] == [40]
    for ask in (
        records.list(elsewhere, everyone=True),
        records.spending(elsewhere, everyone=True),
        records.spending_table(elsewhere),
    ):
        with pytest.raises(NotAllowedError, match="Only admins"):
            await ask
    assert {(what, subject) for _, _, _, subject, what in await audited(records.database)} == {
        ("list", "all of discord:7001"),
        ("info", seen.id),
        ("usage", "all of discord:7001"),
    }


async def test_spending_is_of_the_day_and_the_month_in_utc_and_of_the_ten_who_spent_most(
    records: Records, stored: Stored, alice: Identity
) -> None:
    midnight = datetime(2026, 11, 21, tzinfo=UTC)
    second = timedelta(seconds=1)
    begun = (midnight, midnight - second, midnight.replace(day=1), midnight.replace(day=1) - second)
    for at, cost in zip(begun, (1, 20, 300, 4_000), strict=True):
        await stored.run(alice, created_at=at, cost=cost, input_tokens=1)
    for cost in range(1_000, 1_010):
        await stored.run(await stored.somebody(), cost=cost, input_tokens=1)

    found = await records.spending(admin(alice), everyone=True)

    assert (found.today.cost, found.month.cost) == (1, 321)
    assert [each.cost for each in found.top["user"]] == [*range(1_009, 999, -1)]


async def test_the_model_of_an_admin_reaches_only_the_runs_of_that_admin(
    records: Records, stored: Stored, alice: Identity, bob: Identity
) -> None:
    theirs = await stored.run(alice, label="secret")
    mine = await stored.run(bob, label="mine")
    model = model_of(bob, role=Role.OPERATOR, place=mine.place)

    for handle in (theirs.id, short(theirs.id), "secret"):
        with pytest.raises(NotFoundError, match="You have no run"):
            await records.info(handle, model)
        with pytest.raises(NotFoundError, match="You have no run"):
            await records.log(handle, model)
    with pytest.raises(NotAllowedError, match="Only admins"):
        await records.list(model, everyone=True)
    assert await records.list(model) == ([mine], [])
    assert await find(records, "mine", model) == mine
    assert await audited(records.database) == []


async def test_a_model_finds_and_lists_in_a_channel_only_what_its_readers_can_read(
    records: Records, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    channel = Place("discord", "guild", "general")
    direct, terminal = Place("discord", "", "55"), Place("terminal")
    here = await stored.run(alice, label="here", **place_columns(channel))
    private = await stored.run(alice, label="private", **place_columns(direct))
    over = await stored.run(
        alice,
        label="elsewhere",
        status="failed",
        completed_at=clock(),
        **place_columns(Place("discord", "guild", "staff")),
    )
    clock.advance(1)

    def model(place: Place) -> Caller:
        return model_of(alice, place=place)

    assert await records.list(model(channel)) == ([here], [])
    assert await find(records, "last", model(channel)) == here
    for run in (private, over):
        with pytest.raises(NotFoundError, match="that was started here"):
            await find(records, run.id, model(channel))
    for alone in (model(direct), model(terminal), caller(alice, place=channel)):
        assert await records.list(alone) == ([private, here], [over])
        assert await find(records, over.id, alone) == over


async def test_a_run_finds_and_lists_only_those_that_it_asked_for(
    records: Records, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    parent = await stored.run(alice)
    child = await stored.run(alice, parent_run_id=parent.id, label="child")
    clock.advance(1)
    for _ in range(9):
        await stored.run(alice, label="child", status="failed", completed_at=clock())
    nested = caller(alice, run_id=parent.id, depth=1)

    assert await find(records, "last", nested) == child
    assert await find(records, "child", nested) == child
    with pytest.raises(NotFoundError):
        await find(records, parent.id, nested)
    assert await records.list(nested) == ([child], [])


# -- telling ---------------------------------------------------------------------------------------


async def test_a_list_holds_what_goes_on_and_what_ended_within_half_an_hour(
    records: Records, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await stored.run(alice, status="failed", completed_at=clock())
    clock.advance(30 * 60)
    ended = await stored.run(alice, status="completed", completed_at=clock())
    going = await stored.run(alice, status="queued")
    theirs = await stored.run(bob)
    clock.advance(30 * 60 - 1)

    assert await records.list(caller(alice)) == ([going], [ended])
    with pytest.raises(NotAllowedError, match="Only admins"):
        await records.list(caller(alice), everyone=True)
    assert await audited(records.database) == []
    assert await records.list(admin(bob)) == ([theirs], [])
    active, over = await records.list(admin(bob), everyone=True)
    assert {run.id for run in active} == {going.id, theirs.id}
    assert over == [ended]
    assert await audited(records.database) == [(bob.key, "view", "", "all", "list")]


async def test_all_about_a_run_is_told_with_its_place_in_the_line_and_its_messages(
    records: Records, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    await stored.run(alice, status="queued")
    run = await stored.run(alice, status="queued")
    async with stored.database.transaction() as tx:
        await run_messages.add(tx, message_id="m", run_id=run.id, text="Hi", now=clock())

    details = await records.info(run.id, caller(alice))

    assert (details.run, details.steps, details.position) == (run, 0, 2)
    assert [message.text for message in details.messages] == ["Hi"]
    assert (await records.info("#1", caller(alice))).position == 1


async def take_steps(database: Database, run: Run) -> None:
    """Store the talk of `TALK` as the steps of a run that is at work."""
    tasks = Tasks()
    writer = StepWriter(database, tasks)
    pairs: list[tuple[Message, Message]] = [(TALK[0], TALK[1]), (TALK[2], TALK[3])]
    for seq, (received, answer) in enumerate(pairs):
        body: Json = {
            "received": to_json(received),
            "answer": to_json(answer),
            "limit": None,
            "read": [],
        }
        await writer.write(
            Step(
                table="runs",
                work_id=run.id,
                attempt=1,
                seq=seq,
                kind="answer",
                body=body,
                now=run.created_at,
            )
        )
    await tasks.wait_idle(5)


async def test_a_log_shows_the_steps_of_a_run_at_work_and_the_same_when_it_is_over(
    records: Records, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run = await stored.run(alice, status="running", attempt=1)
    await take_steps(stored.database, run)
    going = await records.log("last", caller(alice))
    async with stored.database.transaction() as tx:
        values = {"status": "completed", "transcript": [to_json(message) for message in TALK]}
        await runs.finish(tx, run.id, values, attempt=None, now=clock())

    over = await records.log("last", caller(alice))

    assert list(going.lines) == LINES
    assert list(over.lines) == [*LINES, "ended: completed"]
    assert over.run.status is RunStatus.COMPLETED
    assert (await records.info("last", caller(alice))).steps == 2


async def test_a_log_shows_the_characters_that_results_stand_for(
    records: Records, stored: Stored, alice: Identity
) -> None:
    result = ToolResult("1", "if a &lt; b &amp;&amp; c: &amp;lt;", failed=False)
    await stored.run(alice, label="a<b", transcript=[to_json(ToolResults((result,)))])
    tools = {tool.name: tool for tool in watching_tools(records)}

    page = await records.log("last", caller(alice))
    text = await tools["sessions_log"].run(
        replace(tool_caller(run_id=None), user=alice), {"run_id": "last"}
    )

    assert page.lines[1] == "← if a < b && c: &lt;"
    assert "“a&lt;b”" in text
    assert "← if a &lt; b &amp;&amp; c: &amp;lt;" in text


async def test_a_log_is_read_in_pages_and_beyond_the_last_is_the_last(
    records: Records, stored: Stored, alice: Identity
) -> None:
    run = await stored.run(alice, transcript=[to_json(message) for message in TALK])

    pages = [
        await records.log(run.id, caller(alice), page=page, per_page=3)
        for page in (1, 2, 3, 99, 0, -5)
    ]

    assert [page.page for page in pages] == [1, 2, 3, 3, 1, 1]
    assert {page.pages for page in pages} == {3}
    assert [line for page in pages[:3] for line in page.lines] == LINES
