"""Runs that ask their user at the terminal: in words, by number, after a restart."""

from pathlib import Path

import pytest

from bot.conversations.access import AccessSettings
from bot.conversations.deciding import GONE
from bot.values import RunStatus, short
from db import run_questions
from tests.fakes.anthropic_server import Reply
from tests.stories.asking import (
    ASKS_AS_TOOL,
    PAINT,
    QUESTIONS,
    World,
    baking,
    painter,
    painting,
    painting_in_a_turn,
    told_to_runs,
    waits_again,
)
from tests.stories.at_terminal import Desk, at_terminal
from tests.stories.stage import call, change, newest_run


async def asked(it: Desk, words: str = "asks: may it use") -> None:
    """Have the user at the prompt ask for something, and wait for the question."""
    it.send("Please do it.")
    await it.shows(words)


async def question_of(it: Desk, word: str) -> str:
    """Return what people type for the question of a run."""
    run = await newest_run(it.bot, word)
    async with it.bot.database.snapshot() as tx:
        [question] = await run_questions.open_of(tx, run.id, "permit")
    return question.id[-6:]


@pytest.mark.parametrize(
    ("answer", "done"),
    [
        ("yes", ["fence"]),
        ("all", ["fence", "gate"]),
        ("no", []),
        ("/no ID", []),
        ("/yes ID", ["fence"]),
    ],
)
async def test_the_owner_allows_or_denies_a_call_in_words(
    sqlite_url: str, tmp_path: Path, answer: str, done: list[str]
) -> None:
    world, gate = World(), call("paint", what="gate")
    further = [gate] if len(done) == 2 else []
    play = painting(PAINT, *further, Reply(text="That is all."))
    async with at_terminal(sqlite_url, play, **painter(tmp_path, world)) as it:
        await asked(it)
        await it.shows("waiting for you")
        run, before = await newest_run(it.bot, "Paint"), list(world.done)
        text = it.read
        it.send(answer.replace("ID", await question_of(it, "Paint")))
        await it.shows("Allowed:" if done else "Denied:")
        await it.shows("That is all.")

        assert before == []
        assert all(part in text for part in (short(run.id), "painter", 'paint(what="fence")'))
        assert all(part in text for part in ("Allow once", "Allow for this run", "Deny"))
        assert world.done == done
        assert it.read.count("asks: may it use") == 1
        if not done:
            assert "The user said no: paint was not called" in told_to_runs(play)


async def test_nobody_else_answers_and_learns_nothing_and_an_admin_may_deny(
    sqlite_url: str, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT, Reply(text="That is all."))
    access = AccessSettings(admins=("terminal:root",))
    kit = painter(tmp_path, world)
    async with at_terminal(sqlite_url, play, access=access, **kit) as it:
        await asked(it)
        run = await newest_run(it.bot, "Paint")
        async with it.bot.database.snapshot() as tx:
            [question] = await run_questions.open_of(tx, run.id, "permit")
        it.send("/as bob")
        await it.shows("You are bob now.")
        for number in (question.id, "0" * 32):
            refusals = it.read.count(GONE) + 1
            it.send(f"/yes {number}")
            await it.until(lambda: it.read.count(GONE) == refusals, GONE)  # noqa: B023
        play.main.append(Reply(text="Hello Bob."))
        it.send("yes")
        await it.shows("Hello Bob.")
        still, done = await newest_run(it.bot, "Paint"), list(world.done)
        it.send("/as alice")
        await it.until(lambda: it.read.count("asks: may it use") == 2, "the question again")
        it.send("/as root")
        await it.shows("You are root now.")
        it.send(f"/yes {question.id}")
        await it.shows("Only its owner can allow this.")
        it.send(f"/no {question.id}")
        await it.shows("Denied:")
        it.send("/as alice")
        await it.shows("That is all.")

        assert (still.status, done) == (RunStatus.WAITING_APPROVAL, [])
        assert world.done == []


async def test_without_an_answer_it_is_a_no_and_that_is_said(
    sqlite_url: str, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT, Reply(text="Nobody was there."))
    async with at_terminal(sqlite_url, play, **painter(tmp_path, world)) as it:
        await asked(it)
        number = await question_of(it, "Paint")
        await change(it.bot, QUESTIONS, expires_at=it.bot.upkeep.now())
        await it.shows(f"Question {number}: No answer came in time.")
        await it.shows("Nobody was there.")
        it.send(f"/yes {number}")
        await it.shows(GONE)

        assert "did not answer within 10 minutes" in told_to_runs(play)
        assert world.done == []


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("2", "Plum"),
        ("Cherry, please", "Cherry, please"),
        ("/subagents send baking Cherry", "Cherry"),
        ("skip", ""),
    ],
)
async def test_a_run_goes_on_with_what_its_user_answers(
    sqlite_url: str, typed: str, answer: str
) -> None:
    play = baking()
    async with at_terminal(sqlite_url, play) as it:
        await asked(it, "Which cake?")
        await it.shows("waiting for you")
        it.send(typed)
        await it.shows("goes on")
        await it.shows("Baked.")

        assert all(part in it.read for part in ("1: Apple", "2: Plum", "skip: Skip"))
        expected = f"answered:\n{answer}" if answer else "skipped the question"
        assert expected in told_to_runs(play)


async def test_a_run_is_stopped_while_it_waits_and_its_question_is_over(
    sqlite_url: str, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT)
    async with at_terminal(sqlite_url, play, **painter(tmp_path, world)) as it:
        await asked(it)
        number = await question_of(it, "Paint")
        it.send("/subagents stop last")
        await it.shows(f"Question {number}: The run is over")
        it.send(f"/yes {number}")
        await it.shows(GONE)

        assert (await newest_run(it.bot, "Paint")).status is RunStatus.CANCELLED
        assert world.done == []


async def test_the_question_waits_for_its_user_to_come_back(
    database_url: str, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT, Reply(text="That is all."))
    kit = painter(tmp_path, world)
    async with at_terminal(database_url, play, **kit) as it:
        await asked(it)
        await it.shows("waiting for you")
        run = await newest_run(it.bot, "Paint")
    async with at_terminal(database_url, play, name="bob", **kit) as it:
        await waits_again(it.bot, run)
        it.send("/help")
        await it.shows("/as NAME")
        others = it.read
        it.send("/as alice")
        await it.shows("asks: may it use")
        it.send("yes")
        await it.shows("That is all.")

        assert "asks: may it use" not in others
        assert world.done == ["fence"]


async def test_an_agent_that_is_called_as_a_tool_asks_while_the_turn_waits(
    database_url: str, tmp_path: Path
) -> None:
    world, play = World(), painting_in_a_turn(PAINT, Reply(text="Painted it."))
    async with at_terminal(database_url, play, **painter(tmp_path, world, ASKS_AS_TOOL)) as it:
        await asked(it)
        run, before = await newest_run(it.bot, "Paint"), it.read
        it.send("yes")
        await it.shows("It is painted.")

        assert (run.status, run.mode) == (RunStatus.WAITING_APPROVAL, "sync")
        assert "It is painted." not in before
        assert world.done == ["fence"]
