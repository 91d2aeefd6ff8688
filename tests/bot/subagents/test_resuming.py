"""A run that continues another one takes over its transcript and its rights."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from sqlalchemy import insert, select, update

from bot.agent.journal import first_step
from bot.agent.messages import (
    Answer,
    Message,
    StopReason,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
    to_json,
)
from bot.errors import BadRequestError, LimitReachedError, NotFoundError
from bot.subagents.resuming import continuation_id
from bot.subagents.run_factory import own_workspace, with_carried
from bot.subagents.shown_calls import question_id
from bot.values import Identity, Role, RunStatus
from db import commands, run_questions, steps, whiteboard
from db.commands import StoredCommand
from db.database import Database, DatabaseSettings
from db.run_questions import RunQuestion
from db.runs import Run
from db.tables import audit, subagent_runs
from db.tables import steps as steps_table
from tests.fakes.clock import FakeClock
from tests.fakes.office import FakeOffice, caller, limits
from tests.fakes.stored import Stored, room

TASK = UserMessage("Count sheep")


@pytest.fixture
async def database(database_settings: DatabaseSettings) -> AsyncIterator[Database]:
    async with Database.open(database_settings) as opened:
        yield opened


@pytest.fixture
async def stored(database: Database, clock: FakeClock, alice: Identity, bob: Identity) -> Stored:
    stored = Stored(database, clock)
    await stored.person(alice)
    await stored.person(bob)
    return stored


@pytest.fixture
def office(database: Database, clock: FakeClock, stored: Stored) -> FakeOffice:
    return FakeOffice(database, limits(per_user=2, everyone=3, queued=1, rate=4), clock)


def launch(identifier: str = "c1", **arguments: str) -> ToolCall:
    return ToolCall(identifier, "launch", dict(arguments))


async def took(office: FakeOffice, run: Run, *answers: tuple[Message | None, Answer]) -> None:
    """Store the steps of a run."""
    async with office.database.transaction() as tx:
        for seq, (received, answer) in enumerate(answers):
            body = first_step(()) | {
                "received": received and to_json(received),
                "answer": to_json(answer),
            }
            row = {"work_id": run.id, "seq": seq, "kind": "answer", "body": body}
            await tx.execute(insert(steps_table).values(**row, created_at=office.now()))


async def change(office: FakeOffice, run: Run, **values: object) -> None:
    async with office.database.transaction() as tx:
        await tx.execute(update(subagent_runs).where(subagent_runs.c.id == run.id).values(**values))


async def taken_over(office: FakeOffice, run: Run) -> list[Message]:
    """Return the messages with which a run begins."""
    async with office.database.snapshot() as tx:
        carried = await steps.carried(tx, run.id)
    assert carried is not None
    return with_carried(TASK, carried, budget=50_000, result_characters=5_000)


async def ended(office: FakeOffice, user: Identity, status: RunStatus = RunStatus.FAILED) -> Run:
    """Start a run and end it; return it."""
    run = await office.spawn(user)
    await office.end(run, "Two so far.", status)
    return await office.read(run)


# -- which runs can be resumed ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [status for status in RunStatus if status.resumable])
async def test_every_end_but_completed_can_be_resumed(
    office: FakeOffice, alice: Identity, status: RunStatus
) -> None:
    before = await ended(office, alice, status)

    spawned = await office.manager.resume(before.id, caller(alice))

    assert (spawned.new, spawned.run.status) == (True, RunStatus.ACCEPTED)
    assert (await office.read(before)).status is status
    assert office.admitted[-1] == spawned.run.id == continuation_id(before.id)
    assert office.cards[-1].run_id == spawned.run.id


def test_what_can_be_resumed_is_over_and_did_not_complete() -> None:
    resumable = {status for status in RunStatus if status.resumable}

    assert resumable == {status for status in RunStatus if status.final} - {RunStatus.COMPLETED}


async def test_a_foreign_run_is_refused_like_an_unknown_one(
    office: FakeOffice, alice: Identity, bob: Identity
) -> None:
    before = await ended(office, alice)

    with pytest.raises(NotFoundError) as foreign:
        await office.manager.resume(before.id, caller(bob))
    with pytest.raises(NotFoundError) as unknown:
        await office.manager.resume(before.id[::-1], caller(bob))

    assert str(foreign.value).replace(before.id, "") == str(unknown.value).replace(
        before.id[::-1], ""
    )


async def test_an_admin_resumes_a_run_for_its_owner_and_that_is_recorded(
    office: FakeOffice, alice: Identity, bob: Identity
) -> None:
    before = await ended(office, alice)

    spawned = await office.manager.resume(before.id, caller(bob, role=Role.OPERATOR))

    assert (spawned.run.user_id, spawned.run.place) == (alice.key, before.place)
    assert office.cards[-1].owner == alice
    async with office.database.snapshot() as tx:
        rows = (await tx.execute(select(audit).where(audit.c.action != "spawn"))).all()
    assert [(row.user_id, row.action, row.owner_id, row.subject, row.effect) for row in rows] == [
        (bob.key, "resume", alice.key, spawned.run.id, f"continues {before.id}")
    ]


async def test_every_cap_counts_a_resumed_run(office: FakeOffice, alice: Identity) -> None:
    first, second = await ended(office, alice), await ended(office, alice)
    for _ in range(2):
        await office.spawn(alice)

    with pytest.raises(LimitReachedError, match="4 of 4 runs"):
        await office.manager.resume(first.id, caller(alice))

    relaxed = FakeOffice(office.database, limits(per_user=2, everyone=3, queued=1), office.now)
    waits = await relaxed.manager.resume(first.id, caller(alice))
    with pytest.raises(LimitReachedError, match="1 of 1 are waiting"):
        await relaxed.manager.resume(second.id, caller(alice))
    assert (waits.position, relaxed.admitted) == (1, [])


async def test_a_run_whose_steps_were_deleted_is_not_begun_anew(
    office: FakeOffice, alice: Identity
) -> None:
    before = await ended(office, alice)
    await change(office, before, tool_call_count=3)

    with pytest.raises(BadRequestError, match="not stored any more"):
        await office.manager.resume(before.id, caller(alice))


async def test_a_run_that_the_model_refused_is_not_sent_to_it_again(
    office: FakeOffice, alice: Identity
) -> None:
    before = await ended(office, alice)
    await took(office, before, (None, Answer("No.", stop=StopReason.REFUSAL)))

    with pytest.raises(BadRequestError, match="The model refused"):
        await office.manager.resume(before.id, caller(alice))


async def test_the_command_is_applied_in_the_transaction_of_the_new_run(
    office: FakeOffice, alice: Identity
) -> None:
    before = await ended(office, alice)
    command = StoredCommand(
        id="c1", user=alice, place=room(alice), role=Role.USER, text="x", conversation_id=""
    )
    async with office.database.transaction() as tx:
        await commands.put(tx, command, "worker", office.now())

    await office.manager.resume(before.id, caller(alice, command_id="c1"))

    async with office.database.transaction() as tx:
        (left,) = await commands.take_over(
            tx, [], me="other", under_way=set(), platforms=[alice.platform]
        )
    assert left.applied


# -- what it takes over ----------------------------------------------------------------------------


async def test_the_row_of_the_new_run_has_the_rights_and_the_place_of_the_old_one(
    office: FakeOffice, alice: Identity, stored: Stored
) -> None:
    rules = {"permissions": [{"shell": "deny"}], "own_workspace": True, "root_id": "turn 1"}
    before = await stored.run(
        alice,
        number=70,
        status="timeout",
        agent="careful",
        mode="sync",
        announce="silent",
        depth=2,
        allowed_tools=["look"],
        blocked_tools=["launch"],
        timeout_ms=7,
        token_budget=150_000,
        input_tokens=140_000,
        seconds_used=6.0,
        metadata=rules,
    )

    run = (await office.manager.resume(before.id, caller(alice))).run
    await office.end(run, status=RunStatus.FAILED)
    again = (await office.manager.resume(run.id, caller(alice))).run

    same = ("agent", "task", "label", "place", "depth", "allowed_tools", "blocked_tools")
    assert [getattr(run, name) for name in same] == [getattr(before, name) for name in same]
    assert (run.mode, run.announce, run.parent_run_id) == ("async", "result", None)
    assert (run.token_budget, run.tokens, run.timeout_ms) == (150_000, 0, 5 * 60_000)
    assert run.metadata["permissions"] == rules["permissions"]
    assert (run.metadata["root_id"], run.metadata["continues"]) == ("turn 1", before.id)
    assert own_workspace(before) == own_workspace(run) == own_workspace(again) == before.id


async def test_a_model_that_may_not_be_asked_for_any_more_is_replaced_and_named(
    office: FakeOffice, alice: Identity
) -> None:
    planner = office.manager.planner

    def choose(provider: str | None, model: str | None, _: object) -> tuple[str, str]:
        if model not in {None, "sonnet-5"}:
            raise BadRequestError("No.")
        return provider or "anthropic", model or "haiku"

    planner = replace(planner, choose=choose)
    run = await ended(office, alice)

    asked = {"asked_model": [None, "sonnet-5"]}
    run = replace(run, provider="anthropic")
    dated = planner.again(replace(run, model="sonnet-5-20261101", metadata=asked), "new")
    refused = {"asked_model": [None, "opus"]}
    gone = planner.again(replace(run, model="anthropic/opus", metadata=refused), "new")

    assert (dated.run.model, dated.notes) == ("sonnet-5", [])
    assert dated.run.metadata["asked_model"] == [None, "sonnet-5"]
    assert (gone.run.provider, gone.run.model) == ("anthropic", "haiku")
    assert gone.notes == ["`anthropic/opus` worked on it before; `anthropic/haiku` does now."]


async def test_the_whiteboard_is_copied(office: FakeOffice, alice: Identity) -> None:
    before = await office.spawn(alice, whiteboard={"found": "two"})
    await office.end(before, status=RunStatus.FAILED)

    run = (await office.manager.resume(before.id, caller(alice))).run

    async with office.database.snapshot() as tx:
        assert await whiteboard.read(tx, run.id, "found") == "two"
        assert await whiteboard.read(tx, before.id, "found") == "two"


async def test_calls_without_a_result_may_have_run_but_not_those_that_waited_for_a_yes(
    office: FakeOffice, alice: Identity
) -> None:
    before = await office.spawn(alice)
    both = Answer("", (launch("c1"), launch("c2"), launch("c3")))
    await took(office, before, (None, both))
    async with office.database.transaction() as tx:
        result = ToolResult("c1", "Launched.").document
        row = {"work_id": before.id, "seq": 1, "kind": "result", "created_at": office.now()}
        body = {"step": 1, "index": 0, **result}
        await tx.execute(insert(steps_table).values(**row, body=body))
        question = RunQuestion(
            id=question_id(before.id, "1.2"),
            run_id=before.id,
            user_id=alice.key,
            kind="permit",
            text="May it?",
            expires_at=office.now(),
        )
        await run_questions.put(tx, question, before.place, office.now())
    await office.end(before, status=RunStatus.CANCELLED)

    run = (await office.manager.resume(before.id, caller(alice))).run

    *_, results = await taken_over(office, run)
    assert isinstance(results, ToolResults)
    first, second, third = results.results
    assert first == ToolResult("c1", "Launched.")
    assert "launch may have run" in second.text
    assert "launch was not called" in third.text
    assert "ended: stopped. This run continues it" in results.note


async def test_foreign_and_private_material_stays_marked(
    office: FakeOffice, alice: Identity
) -> None:
    before = await office.spawn(alice)
    read = ToolResults((ToolResult("c1", "A page.", foreign=True, private=True),))
    await took(office, before, (None, Answer("", (launch(),))), (read, Answer("Well.")))
    await office.end(before, status=RunStatus.FAILED)

    run = (await office.manager.resume(before.id, caller(alice))).run

    assert (run.metadata["foreign"], run.metadata["private"]) == (True, True)


async def test_runs_that_the_old_run_started_are_listed_with_their_results(
    office: FakeOffice, alice: Identity, stored: Stored
) -> None:
    before = await ended(office, alice)
    await stored.run(
        alice,
        number=70,
        parent_run_id=before.id,
        label="helper",
        status="completed",
        result="Found <it>.",
    )

    run = (await office.manager.resume(before.id, caller(alice))).run

    (*_, last) = await taken_over(office, run)
    assert isinstance(last, UserMessage)
    assert "“helper”: completed" in last.text
    assert "Found &lt;it&gt;." in last.text
    assert run.metadata["foreign"] is True


def test_a_long_transcript_loses_its_older_part_but_not_the_list_of_its_calls() -> None:
    messages: list[Message] = []
    for number in range(20):
        messages.append(Answer("", (launch(f"c{number}", what=f"rocket {number}"),)))
        failed = number == 1
        messages.append(ToolResults((ToolResult(f"c{number}", "x" * 3_000, failed=failed),)))
    document = {"messages": [to_json(message) for message in messages]}

    shown = with_carried(TASK, document, budget=15_000, result_characters=5_000)

    assert shown[0] == TASK
    assert len(shown) < 14
    last = shown[-1]
    assert isinstance(last, ToolResults)
    assert "They were made:\n- launch({'what': 'rocket 0'})\n" in last.note
    assert "- launch({'what': 'rocket 1'}) – failed\n" in last.note
    assert "rocket 19" not in last.note


async def test_an_answer_that_paused_loses_the_blocks_that_only_it_could_go_on_with(
    office: FakeOffice, alice: Identity
) -> None:
    before = await office.spawn(alice)
    paused = Answer("Searching.", stop=StopReason.PAUSE, native=[{"type": "server_tool_use"}])
    await took(office, before, (None, paused))
    await office.end(before, status=RunStatus.FAILED)

    run = (await office.manager.resume(before.id, caller(alice))).run

    _, answer, note = await taken_over(office, run)
    assert answer == replace(paused, native=None)
    assert isinstance(note, UserMessage)
