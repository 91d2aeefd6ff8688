"""What a run may do without asking, what it asks its user, and how it waits."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from bot.agent.permissions import PermissionSettings
from bot.agent.settings import AgentsSettings
from bot.conversations.access import AccessSettings
from bot.events import RunEvent, RunStatusChanged
from bot.platforms.base import Confirmation, Settlement
from bot.subagents.limits import SubagentSettings
from bot.values import Place, RunStatus, short
from db import run_questions, runs, tables
from tests.fakes.anthropic_server import Reply
from tests.stories.asking import ASKS, World, told_to_runs
from tests.stories.stage import (
    ADMIN,
    ALICE,
    BOB,
    PLATFORM,
    Play,
    Stage,
    call,
    calls,
    change,
    newest,
    said,
    stage,
)


def agents(folder: Path, **files: str) -> dict[str, Any]:
    """Return a section with these agents: their front matter besides name and description."""
    for name, head in files.items():
        text = f"---\nname: {name}\ndescription: Does things.\n{head}\n---\nDo things.\n"
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return {"agents": AgentsSettings(folders=(str(folder),))}


def painter(*lines: Reply) -> Play:
    return Play(runs={"Paint": list(lines)})


async def begun(it: Stage) -> Confirmation:
    """Let Alice start a run that asks, and return its question."""
    await it.command(ALICE, "/subagents spawn --agent painter Paint the fence")
    return await it.outlet.asked()


def heard(play: Play) -> str:
    """Return what the model was told last."""
    return said(play.asked[-1]["messages"][-1])


async def test_a_run_that_may_ask_waits_for_a_yes_and_goes_on(
    database_url: str, tmp_path: Path
) -> None:
    world, events = World(), list[RunEvent]()
    play = painter(call("paint", what="fence"), Reply(text="The fence is painted."))
    asks = agents(tmp_path, painter=ASKS)
    async with stage(database_url, play, further_skills=[world.skill], **asks) as it:
        it.bot.events.subscribe(RunEvent, events.append)
        question = await begun(it)
        run = await it.run_of("Paint")
        waiting, before = run.status, list(world.done)
        reply = await it.bot.orchestrator.answer(ALICE, question.id, choice="yes")
        told = await it.outlet.announced(run.id)

        assert (waiting, before) == (RunStatus.WAITING_APPROVAL, [])
        assert [choice.key for choice in question.choices] == ["yes", "all", "always", "no"]
        assert "paint(what=" in question.text
        assert f"`{short(run.id)}`" in question.text
        assert "painter" in question.text
        assert "Allowed" in reply.text
        assert world.done == ["fence"]
        assert "The fence is painted." in told.text
        states = [event.new for event in events if isinstance(event, RunStatusChanged)]
        assert RunStatus.WAITING_APPROVAL in states
        assert states[-2:] == [RunStatus.RUNNING, RunStatus.COMPLETED]
        assert it.outlet.cards[run.id][-1].status is RunStatus.COMPLETED


async def test_a_no_is_told_to_the_run_and_nothing_is_done(
    database_url: str, tmp_path: Path
) -> None:
    world, play = World(), painter(call("paint"), Reply(text="Left as it is."))
    asks = agents(tmp_path, painter=ASKS)
    async with stage(database_url, play, further_skills=[world.skill], **asks) as it:
        await begun(it)
        reply = await it.command(ALICE, "no")
        await it.ended("Paint", RunStatus.COMPLETED)

        assert "Denied" in reply.text
        assert "The user said no: paint was not called" in heard(play)
        assert world.done == []


async def test_a_yes_for_the_whole_run_is_asked_for_once(database_url: str, tmp_path: Path) -> None:
    world = World()
    play = painter(
        call("paint", what="fence"), calls(("paint", {"what": "gate"}), ("paint", {"what": "door"}))
    )
    asks = agents(tmp_path, painter=ASKS)
    async with stage(database_url, play, further_skills=[world.skill], **asks) as it:
        await begun(it)
        await it.command(ALICE, "all")
        await it.ended("Paint", RunStatus.COMPLETED)

        assert sorted(world.done) == ["door", "fence", "gate"]
        assert len(it.outlet.questions) == 1


async def test_ten_minutes_without_an_answer_are_a_no(database_url: str, tmp_path: Path) -> None:
    world, play = World(), painter(call("paint"), Reply(text="Nobody was there."))
    asks = agents(tmp_path, painter=ASKS)
    async with stage(database_url, play, further_skills=[world.skill], **asks) as it:
        question = await begun(it)
        table = tables.run_questions
        await change(it.bot, table, table.c.id == question.id, expires_at=it.bot.upkeep.now())
        await it.ended("Paint", RunStatus.COMPLETED)
        late = await it.bot.orchestrator.answer(ALICE, question.id, choice="yes")

        assert question.expires_in_seconds == pytest.approx(600, abs=5)
        assert "did not answer within 10 minutes" in heard(play)
        assert late.refused
        assert world.done == []


async def test_only_the_owner_allows_a_call_of_a_run_and_an_admin_may_deny_it(
    database_url: str, tmp_path: Path
) -> None:
    world, play = World(), painter(call("paint"))
    asks = agents(tmp_path, painter=ASKS)
    access = AccessSettings(admins=(f"{PLATFORM}:root",))
    async with stage(database_url, play, further_skills=[world.skill], access=access, **asks) as it:
        question = await begun(it)
        strangers = await it.bot.orchestrator.answer(BOB, question.id, choice="yes")
        missing = await it.bot.orchestrator.answer(BOB, "0" * 32, choice="yes")
        odd = await it.bot.orchestrator.answer(ALICE, question.id, choice="7")
        in_words = await it.say(BOB, "yes")
        still = (await it.run_of("Paint")).status
        admins = await it.bot.orchestrator.answer(ADMIN, question.id, choice="yes")
        denied = await it.bot.orchestrator.answer(ADMIN, question.id, choice="no")
        again = await it.bot.orchestrator.answer(ALICE, question.id, choice="yes")
        await it.ended("Paint", RunStatus.COMPLETED)

        assert strangers == missing == odd
        assert strangers.refused
        assert in_words is None
        assert still is RunStatus.WAITING_APPROVAL
        assert admins.text == "Only its owner can allow this. An admin can say no."
        assert not denied.refused
        assert again.refused
        assert world.done == []


@pytest.mark.parametrize(
    ("head", "sections", "told"),
    [
        ("permissions: {paint: deny}", {}, "You have no tool"),
        ("permissions: {paint: ask}", {}, "Subagents cannot request user permission."),
        ("", {"default": "ask"}, "Permission required: paint changes something."),
        ("", {"rules": {"paint": "deny"}}, "You have no tool"),
        ("permissions: {paint: allow}", {"rules": {"paint": "deny"}}, "You have no tool"),
    ],
)
async def test_what_is_not_allowed_is_refused_in_the_words_of_the_rules(
    database_url: str,
    tmp_path: Path,
    head: str,
    sections: Mapping[str, Any],
    told: str,
) -> None:
    world, play = World(), painter(call("paint"), Reply(text="Could not."))
    settings = agents(tmp_path, painter=head)
    settings["permissions"] = PermissionSettings(**sections)
    async with stage(database_url, play, further_skills=[world.skill], **settings) as it:
        await it.command(ALICE, "/subagents spawn --agent painter Paint the fence")
        await it.ended("Paint", RunStatus.COMPLETED)

        assert told in heard(play)
        assert world.done == []
        offered = {each["name"] for each in play.asked[0]["tools"]}
        assert ("paint" in offered) is ("Permission" in told or "request" in told)


async def test_a_caller_takes_away_what_the_agent_may(database_url: str) -> None:
    world = World()
    rules = {"paint": "deny"}
    play = Play(
        main=[call("sessions_spawn", task="Paint", permissions=rules), Reply(text="Begun.")],
        runs={"Paint": [call("paint"), Reply(text="Could not.")]},
    )
    async with stage(database_url, play, further_skills=[world.skill]) as it:
        await it.say(ALICE, "Let the fence be painted, but not by anyone.")
        await it.outlet.replied()
        await it.ended("Paint", RunStatus.COMPLETED)

        assert "You have no tool 'paint'" in told_to_runs(play)
        assert world.done == []


async def test_the_main_agent_asks_before_what_a_rule_says_and_does_it_when_the_yes_comes(
    database_url: str,
) -> None:
    world = World()
    play = Play(main=[call("paint", what="fence"), Reply(text="I asked you.")])
    rules = PermissionSettings(rules={"paint": "ask"})
    async with stage(database_url, play, further_skills=[world.skill], permissions=rules) as it:
        await it.say(ALICE, "Paint the fence.")
        question = await it.outlet.asked()
        await it.outlet.replied()
        before = list(world.done)
        await it.command(ALICE, "yes")
        await it.outlet.replied(2)

        assert "paint(what=" in question.text
        assert before == []
        assert world.done == ["fence"]


async def test_while_it_waits_a_run_holds_no_slot_and_goes_on_when_there_is_one(
    database_url: str, tmp_path: Path
) -> None:
    world = World()
    play = painter(call("paint"), Reply(text="Painted."), call("paint"))
    play.runs["Read"] = [call("wait_here"), Reply(text="Read.")]
    settings = agents(tmp_path, painter=ASKS)
    settings["subagents"] = SubagentSettings(max_concurrent_global=1, max_concurrent_per_user=1)
    async with stage(database_url, play, further_skills=[world.skill], **settings) as it:
        question = await begun(it)
        await it.command(ALICE, "/subagents spawn Read the book")
        await it.gate.held(1)
        await it.command(ALICE, "/subagents spawn --agent painter Paint another")
        await it.command(ALICE, "yes")
        meanwhile, done = await answered_and_still_waiting(it, question), list(world.done)
        it.gate.opened.set()
        await it.outlet.until(lambda: world.done == ["it"], "the fence")
        # It came before the one that had only waited for its turn.
        await it.outlet.asked(2)

        assert (meanwhile, done) == (RunStatus.WAITING_APPROVAL, [])


async def answered_and_still_waiting(it: Stage, question: Confirmation) -> RunStatus:
    """Wait until a run has seen its answer and asks for a slot, and return its state."""
    while True:
        async with it.bot.database.snapshot() as tx:
            asked = await run_questions.get(tx, question.id)
            assert asked is not None
            ready = await tx.scalar(
                select(tables.subagent_runs.c.ready_at).where(
                    tables.subagent_runs.c.id == asked.run_id
                )
            )
            run = await runs.get(tx, asked.run_id)
        if ready is not None and run is not None:
            return run.status
        await asyncio.sleep(0.01)


async def test_waiting_for_its_user_takes_none_of_a_runs_time(
    database_url: str, tmp_path: Path
) -> None:
    world, play = World(), painter(call("paint"), Reply(text="Painted."))
    asks = agents(tmp_path, painter=ASKS)
    async with stage(database_url, play, further_skills=[world.skill], **asks) as it:
        await begun(it)
        began = time.monotonic()
        await asyncio.sleep(0.5)
        waited = time.monotonic() - began
        await it.command(ALICE, "yes")
        run = await it.ended("Paint", RunStatus.COMPLETED)
        assert run.started_at is not None
        assert run.completed_at is not None
        whole = (run.completed_at - run.started_at).total_seconds()

        assert run.seconds_used <= whole - waited


async def test_a_run_that_waits_is_stopped_at_once_and_its_question_is_over(
    database_url: str, tmp_path: Path
) -> None:
    world, play = World(), painter(call("paint"))
    asks = agents(tmp_path, painter=ASKS)
    async with stage(database_url, play, further_skills=[world.skill], **asks) as it:
        question = await begun(it)
        await it.command(ALICE, "/subagents stop last")
        await it.ended("Paint", RunStatus.CANCELLED)
        late = await it.bot.orchestrator.answer(ALICE, question.id, choice="yes")

        assert late.refused
        assert world.done == []


async def test_a_delegated_task_asks_too_and_the_turn_waits_for_it(
    database_url: str, tmp_path: Path
) -> None:
    world = World()
    task = {"task": "Paint", "tools_needed": ["paint"], "agent": "painter"}
    play = Play(
        main=[call("delegate_to_subagent", **task), Reply(text="It is painted.")],
        runs={"Paint": [call("paint", what="fence"), Reply(text="Painted it.")]},
    )
    asks = agents(tmp_path, painter=ASKS)
    async with stage(database_url, play, further_skills=[world.skill], **asks) as it:
        await it.say(ALICE, "Have the fence painted now.")
        await it.outlet.asked()
        run = await it.run_of("Paint")
        await it.command(ALICE, "yes")
        reply = await it.outlet.replied()

        assert run.status is RunStatus.WAITING_APPROVAL
        assert reply.final == "It is painted."
        assert "Painted it." in heard(play)
        assert world.done == ["fence"]


async def test_after_a_restart_the_same_question_waits_and_its_yes_counts_once(
    database_url: str, tmp_path: Path
) -> None:
    world = World()
    play = painter(call("paint", what="fence"), Reply(text="Painted."))
    asks = agents(tmp_path, painter=ASKS)
    async with stage(database_url, play, further_skills=[world.skill], **asks) as it:
        question = await begun(it)
    async with stage(database_url, play, further_skills=[world.skill], **asks) as it:
        again = await it.outlet.asked()
        await it.bot.orchestrator.answer(ALICE, question.id, choice="yes")
        await it.ended("Paint", RunStatus.COMPLETED)

        assert again.id == question.id
        assert world.done == ["fence"]


async def test_a_yes_that_came_while_nobody_was_at_work_is_taken_at_the_next_start(
    database_url: str, tmp_path: Path
) -> None:
    world = World()
    play = painter(call("paint", what="fence"), Reply(text="Painted."))
    asks = agents(tmp_path, painter=ASKS)
    async with stage(database_url, play, further_skills=[world.skill], **asks) as it:
        question = await begun(it)
        run = await it.run_of("Paint")
        table = tables.run_questions
        it.bot.upkeep.active.drain()
        await change(it.bot, table, table.c.id == question.id, status="yes")
    async with stage(database_url, play, further_skills=[world.skill], **asks) as it:
        told = await it.outlet.announced(run.id)

        assert "Painted." in told.text
        assert world.done == ["fence"]


# -- what only the user knows ------------------------------------------------------------------


def asker(*lines: Reply) -> Play:
    return Play(runs={"Bake": list(lines)})


ASKED = call("ask_user", question="Which cake?", options=["Apple", "Plum"])


async def baking(it: Stage) -> Confirmation:
    await it.command(ALICE, "/subagents spawn --label baking Bake a cake")
    return await it.outlet.asked()


@pytest.mark.parametrize(
    ("way", "answer"),
    [
        ("Cherry, please", "Cherry, please"),
        ("2", "Plum"),
        ("/subagents send baking Cherry", "Cherry"),
        ("/subagents send last 1", "Apple"),
        ("button 1", "Apple"),
    ],
)
async def test_a_run_asks_and_goes_on_with_the_answer(
    database_url: str, way: str, answer: str
) -> None:
    play = asker(ASKED, Reply(text="Baked."))
    async with stage(database_url, play) as it:
        question = await baking(it)
        run = await it.run_of("Bake")
        if way.startswith("button"):
            reply = await it.bot.orchestrator.answer(ALICE, question.id, choice=way[-1])
        else:
            reply = await it.command(ALICE, way)
        await it.ended("Bake", RunStatus.COMPLETED)

        assert run.status is RunStatus.WAITING_INPUT
        assert "Which cake?" in question.text
        assert [choice.label for choice in question.choices] == ["Apple", "Plum", "Skip"]
        assert question.open_ended
        assert "has your answer and goes on" in reply.text
        assert f"The user answered:\n{answer}" in heard(play)


async def test_a_question_can_be_skipped_and_the_run_assumes(database_url: str) -> None:
    play = asker(ASKED, Reply(text="Baked."))
    async with stage(database_url, play) as it:
        question = await baking(it)
        await it.bot.orchestrator.answer(ALICE, question.id, choice="skip")
        await it.ended("Bake", RunStatus.COMPLETED)

        assert "skipped the question. Go on with your best assumption" in heard(play)


@pytest.mark.parametrize(
    ("way", "settlement"),
    [
        ("Cherry", Settlement("Cherry", ALICE)),
        ("/subagents send baking 2", Settlement("Plum", ALICE)),
        ("skip", Settlement("Skip", ALICE)),
        ("/subagents stop last", Settlement("The run is over: it no longer needs an answer.")),
    ],
)
async def test_where_a_question_stands_it_is_shown_what_became_of_it(
    database_url: str, way: str, settlement: Settlement
) -> None:
    async with stage(database_url, asker(ASKED, Reply(text="Baked."))) as it:
        question = await baking(it)
        await it.command(ALICE, way)
        await it.outlet.until(lambda: question.id in it.outlet.settled, "the settlement")

        assert it.outlet.settled[question.id] == settlement


async def test_an_admin_who_never_talked_with_the_bot_answers_namelessly(
    database_url: str,
) -> None:
    access = AccessSettings(admins=(f"{PLATFORM}:root",))
    async with stage(database_url, asker(ASKED, Reply(text="Baked.")), access=access) as it:
        question = await baking(it)
        await it.bot.orchestrator.answer(ADMIN, question.id, choice="2")
        await it.outlet.until(lambda: question.id in it.outlet.settled, "the settlement")

        assert it.outlet.settled[question.id] == Settlement("Answered: Plum")


async def test_someone_who_is_away_is_asked_when_they_are_back(database_url: str) -> None:
    play = asker(ASKED, Reply(text="Baked."))
    async with stage(database_url, play) as it:
        it.outlet.absent.add(ALICE)
        await it.command(ALICE, "/subagents spawn --label baking Bake a cake")
        await it.outlet.until(
            lambda: any(
                cards[-1].status is RunStatus.WAITING_INPUT for cards in it.outlet.cards.values()
            ),
            "a run that waits",
        )
        meanwhile = list(it.outlet.questions)
        it.outlet.absent.clear()
        await it.outlet.asked()
        await it.command(ALICE, "Plum")
        await it.ended("Bake", RunStatus.COMPLETED)

        assert meanwhile == []
        assert "The user answered:\nPlum" in heard(play)


async def test_what_others_say_meanwhile_is_no_answer(database_url: str) -> None:
    play = asker(ASKED, Reply(text="Baked."))
    play.main = [Reply(text="Hello Bob.")]
    async with stage(database_url, play) as it:
        await baking(it)
        await it.say(BOB, "Plum!")
        reply = await it.outlet.replied()

        assert reply.final == "Hello Bob."
        assert (await it.run_of("Bake")).status is RunStatus.WAITING_INPUT


async def test_the_next_word_after_the_answer_is_for_the_bot_again(database_url: str) -> None:
    play = asker(ASKED, Reply(text="Baked."))
    play.main = [Reply(text="Hello Alice.")]
    async with stage(database_url, play) as it:
        await baking(it)
        await it.command(ALICE, "Plum")
        await it.say(ALICE, "And how are you?")
        reply = await it.outlet.replied()

        assert reply.final == "Hello Alice."


async def test_with_two_runs_waiting_a_message_is_for_the_main_agent_which_sees_both(
    database_url: str,
) -> None:
    play = asker(ASKED)
    play.runs["Brew"] = [call("ask_user", question="Which tea?")]
    play.main = [Reply(text="For which of them?")]
    async with stage(database_url, play) as it:
        await baking(it)
        await it.command(ALICE, "/subagents spawn --label brewing Brew tea")
        await it.outlet.asked(2)
        await it.say(ALICE, "Green")
        reply = await it.outlet.replied()
        told = said(play.asked[-1]["messages"][-1])
        await it.command(ALICE, "/subagents send brewing Green")
        await it.ended("Brew", RunStatus.COMPLETED)

        assert reply.final == "For which of them?"
        assert "Which cake?" in told
        assert "Which tea?" in told
        assert (await it.run_of("Bake")).status is RunStatus.WAITING_INPUT


async def test_a_run_asks_three_times_at_most(database_url: str) -> None:
    play = asker(*(call("ask_user", question=f"Question {n}?") for n in range(4)))
    async with stage(database_url, play) as it:
        await baking(it)
        for number in range(3):
            await it.outlet.asked(number + 1)
            await it.command(ALICE, f"Answer {number}")
        await it.ended("Bake", RunStatus.COMPLETED)

        assert "You have asked 3 questions, and a run may ask 3." in heard(play)
        assert len(it.outlet.questions) == 3


async def test_the_main_agent_sees_what_a_run_asks_and_passes_the_answer_on(
    database_url: str,
) -> None:
    play = asker(ASKED, Reply(text="Baked."))
    async with stage(database_url, play) as it:
        await baking(it)
        run = await it.run_of("Bake")
        play.main = [
            call("sessions_send", run_id=run.id, message="Plum"),
            Reply(text="I passed it on."),
        ]
        elsewhere = Place(PLATFORM, "guild", "room", "another thread")
        await it.say(ALICE, "Tell the baking that it is plum.", elsewhere)
        await it.outlet.replied()
        # What the run asks stands in the prompt, and others may have written it.
        await it.say(ALICE, "yes", elsewhere)
        await it.ended("Bake", RunStatus.COMPLETED)

        first = next(body for body in play.asked if "Tell the baking" in newest(body))
        assert "Which cake?" in said(first["messages"][-1])
        assert "The user answered:\nPlum" in " ".join(
            said(message) for body in play.asked for message in body["messages"]
        )


async def test_an_agent_that_is_not_to_ask_has_no_such_tool(
    database_url: str, tmp_path: Path
) -> None:
    play = asker(ASKED, Reply(text="Baked."))
    settings = agents(tmp_path, baker="disallowedTools: ask_user")
    async with stage(database_url, play, **settings) as it:
        await it.command(ALICE, "/subagents spawn --agent baker Bake a cake")
        await it.ended("Bake", RunStatus.COMPLETED)

        assert "ask_user" not in {each["name"] for each in play.asked[0]["tools"]}
        assert it.outlet.questions == []
