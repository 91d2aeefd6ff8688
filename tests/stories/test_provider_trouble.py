"""The model's provider is busy or down for longer than anybody would wait for one answer."""

from datetime import timedelta
from typing import Literal

import pytest
from pydantic import SecretStr

from bot.agent.messages import Usage
from bot.models.openai import OpenAISettings
from bot.models.retrying import LEAST, RetrySettings
from bot.subagents.limits import SubagentSettings
from bot.values import Json, RunStatus
from db.admission import tokens_since
from db.runs import Run
from tests.fakes.anthropic_server import Call, Reply
from tests.fakes.model_server import in_order
from tests.fakes.openai_server import KEY, FakeOpenAI
from tests.fakes.patience import eventually
from tests.stories.stage import ALICE, BOB, RETRY, Play, Stage, is_run, newest_run, stage

SPAWN = "/subagents spawn --label work Work on it"
OVERLOADED = Reply(status=529, kind="overloaded_error")
#: As long as the run has time; a wait is quick, so that many fit into a test.
PATIENT = RETRY.model_copy(update={"total_seconds": 3600})
#: A wait is long, so that it is under way when something else happens.
SLOW = RetrySettings(wait_initial_seconds=600, wait_max_seconds=600, wait_jitter_seconds=0)


@pytest.mark.parametrize(
    "trouble",
    [
        OVERLOADED,
        Reply(status=429, kind="rate_limit_error"),
        Reply(status=500, kind="api_error"),
        Reply(fault="drop"),
    ],
    ids=["529", "429", "500", "dropped"],
)
async def test_a_run_waits_for_its_provider_within_its_own_time(
    database_url: str, trouble: Reply
) -> None:
    play = Play(runs={"Work": [*[trouble] * 40, Reply(text="Finished.")]})
    async with stage(database_url, play, more_models={"retry": PATIENT}) as it:
        await it.command(ALICE, SPAWN)

        announced = await it.outlet.announced((await it.run_of("Work")).id)

        assert announced.text == "Finished."


BROKEN = Reply(fault="garbage")


async def test_answers_that_cannot_be_read_are_charged_to_the_run_and_its_user(
    database_url: str,
) -> None:
    play = Play(runs={"Work": [BROKEN, BROKEN, Reply(text="Finished.", usage=Usage(100, 20))]})
    async with stage(database_url, play, more_models={"retry": PATIENT}) as it:
        await it.command(ALICE, SPAWN)
        run = await it.run_of("Work")
        await it.outlet.announced(run.id)

        run = await it.run_of("Work")
        used, tokens = await spent_by(it, run), run.weighted_tokens

        # Each of the two had an input of some thousand tokens, of which nothing was reported.
        assert run.output_tokens == 20
        assert tokens > 120 + 2_000
        assert used == tokens


@pytest.mark.parametrize("fault", ["garbage", "hang"])
async def test_a_run_that_ends_without_an_answer_is_charged_for_what_was_asked(
    database_url: str, fault: Literal["garbage", "hang"]
) -> None:
    retry = PATIENT.model_copy(update={"attempts": 2})
    play = Play(runs={"Work": [Reply(fault=fault)] * 2})
    async with stage(database_url, play, more_models={"retry": retry}) as it:
        await it.command(ALICE, SPAWN)
        run = await it.run_of("Work")
        if fault == "hang":

            async def asked() -> bool:
                return bool(play.asked)

            await eventually(asked, "the request")
            await it.command(ALICE, f"/subagents stop {run.id[:8]}")
        await it.outlet.announced(run.id)

        run = await it.run_of("Work")
        assert run.status is (RunStatus.FAILED if fault == "garbage" else RunStatus.CANCELLED)
        assert run.weighted_tokens > 1_000
        assert await spent_by(it, run) == run.weighted_tokens


async def spent_by(it: Stage, run: Run) -> int:
    """Return the weighted tokens that count against the limit of a run's user."""
    async with it.bot.database.snapshot() as tx:
        return (await tokens_since(tx, run.user_id, run.created_at - timedelta(hours=1)))[1]


async def test_a_turn_waits_as_well(database_url: str) -> None:
    play = Play(main=[*[OVERLOADED] * 40, Reply(text="Here I am.")])
    async with stage(database_url, play, more_models={"retry": PATIENT}) as it:
        await it.say(ALICE, "Hello")

        reply = await it.outlet.replied()

        assert reply.final == "Here I am."


async def test_a_wait_beyond_the_time_of_the_work_fails_at_once_and_says_how_long(
    database_url: str,
) -> None:
    tired = Reply(status=429, kind="rate_limit_error", headers={"retry-after": "7200"})
    play = Play(main=[tired], runs={"Work": [tired]})
    async with stage(database_url, play, more_models={"retry": PATIENT}) as it:
        await it.command(ALICE, SPAWN)
        announced = await it.outlet.announced((await it.run_of("Work")).id)
        await it.say(BOB, "Hello")
        reply = await it.outlet.replied()

        assert "failed" in announced.title
        assert "Anthropic is busy at the moment. Try again in 2 hours" in announced.text
        assert "Try again in 2 hours" in (reply.final or "")


async def test_the_card_and_the_reply_say_what_is_waited_for(database_url: str) -> None:
    play = Play(main=[OVERLOADED], runs={"Work": [OVERLOADED]})
    async with stage(database_url, play, more_models={"retry": SLOW}) as it:
        await it.command(ALICE, SPAWN)
        run = await it.run_of("Work")
        await it.outlet.until(lambda: "⏳" in it.outlet.card(run.id).line, "the card says so")
        await it.say(BOB, "Hello")
        await it.outlet.until(
            lambda: any("⏳" in text for reply in it.outlet.replies for text in reply.updates),
            "the reply",
        )

        line = it.outlet.card(run.id).line
        stopped = await it.command(ALICE, f"/subagents stop {run.id[:8]}")

        assert line.startswith("⏳ Anthropic is busy at the moment. I go on by myself in ")
        assert not stopped.failed
        card = await it.outlet.card_shows(run.id, RunStatus.CANCELLED)
        assert card.line == ""


async def test_a_run_that_waited_when_the_process_ended_goes_on_in_the_next(
    database_url: str,
) -> None:
    play = Play(runs={"Work": [OVERLOADED]})
    async with stage(database_url, play, more_models={"retry": SLOW}) as it:
        await it.command(ALICE, SPAWN)
        run = await it.run_of("Work")
        await it.outlet.until(lambda: "⏳" in it.outlet.card(run.id).line, "the run waits")

    after = Play(runs={"Work": [Reply(text="Finished.")]})
    async with stage(database_url, after) as it:
        announced = await it.outlet.announced(run.id)

        assert announced.text == "Finished."
        assert (await newest_run(it.bot, "Work")).id == run.id


@pytest.mark.parametrize(
    "trouble",
    [OVERLOADED, Reply(status=402, kind="billing_error"), Reply(status=404, kind="not_found")],
    ids=["dead", "no credit", "no such model"],
)
async def test_another_model_answers_for_one_that_does_not(
    database_url: str, trouble: Reply
) -> None:
    def second(body: Json) -> Reply:
        if any(message["role"] == "tool" for message in body["messages"]):
            return Reply(text="Finished by another.")
        return Reply(calls=(Call("wait_here", {}),)) if body.get("tools") else Reply(text="Short.")

    async with FakeOpenAI(second) as server:
        more = {
            "provider": "anthropic",
            "openai": OpenAISettings(
                api_key=SecretStr(KEY), base_url=f"{server.url}/v1", main_model="gpt-other"
            ),
            "fallbacks": ("openai/gpt-other",),
            "fallback_after_seconds": 0.1,
            "retry": PATIENT,
        }

        async with stage(database_url, Play(), script=lambda _: trouble, more_models=more) as it:
            it.gate.opened.set()
            await it.command(ALICE, SPAWN)
            run = await it.run_of("Work")
            announced = await it.outlet.announced(run.id)
            await it.say(BOB, "What time is it?")
            reply = await it.outlet.replied()
            ended = await it.run_of("Work")

    assert announced.text == "Finished by another."
    assert ended.model == "openai/gpt-other"
    assert "Finished by another." in (reply.final or "")
    assert "`openai/gpt-other` answered: the usual model was unavailable" in (reply.final or "")


@pytest.mark.parametrize(
    ("option", "model"), [("", "claude-haiku-5-5"), ("--model claude-opus-5-5 ", "claude-opus-5-5")]
)
async def test_a_run_that_a_fallback_ended_is_resumed_with_the_model_asked_for_first(
    database_url: str, option: str, model: str
) -> None:
    dead = True

    def first(body: Json) -> Reply:
        if dead:
            return Reply(status=404, kind="not_found_error")
        return Reply(text="Finished.", model=body["model"])

    # The fallback asks for something, and is then gone as well.
    gone = Reply(status=400, text="Gone.")
    async with FakeOpenAI(in_order(Reply(calls=(Call("current_time", {}),)), gone)) as server:
        more = {
            "provider": "anthropic",
            "openai": OpenAISettings(
                api_key=SecretStr(KEY), base_url=f"{server.url}/v1", main_model="gpt-other"
            ),
            "fallbacks": ("openai/gpt-other",),
            "fallback_after_seconds": 0.1,
            "allowed": ("claude-opus-5-5",),
        }
        async with stage(database_url, Play(), script=first, more_models=more) as it:
            await it.command(ALICE, f"/subagents spawn {option}--label work Work on it")
            before = await it.ended("Work", RunStatus.FAILED)
            dead = False
            reply = await it.command(ALICE, "/subagents resume work")
            after = await it.ended("Work", RunStatus.COMPLETED)

    assert (before.model, after.provider, after.model) == ("openai/gpt-other", "anthropic", model)
    note = f"`openai/gpt-other` worked on it before; `anthropic/{model}` does now."
    assert note in reply.text


async def test_a_turn_is_asked_about_before_the_runs_that_wait(database_url: str) -> None:
    """After a refusal so many requests go at once; runs have them, and another waits for room."""
    asked: list[str] = []

    def script(body: Json) -> Reply:
        asked.append("run" if is_run(body) else "turn")
        if len(asked) == 1:
            return OVERLOADED
        return Reply(fault="hang") if is_run(body) else Reply(text="Here I am.")

    async def all_but_one() -> bool:
        return len(asked) == 1 + LEAST

    settings = SubagentSettings(max_concurrent_per_user=1 + LEAST)
    models = {"retry": PATIENT}
    async with stage(
        database_url, Play(), script=script, more_models=models, subagents=settings
    ) as it:
        for number in range(1 + LEAST):
            await it.command(ALICE, f"/subagents spawn --label w{number} Work {number}")
        await eventually(all_but_one, "as many runs as may are asked about")
        await it.outlet.until(
            lambda: any("my turn" in cards[-1].line for cards in it.outlet.cards.values()),
            "one waits",
        )
        await it.say(BOB, "Hello")
        reply = await it.outlet.replied()

        assert reply.final == "Here I am."
        assert asked[1 + LEAST] == "turn"
