"""A long result is shortened for the one who asked, as the agent's file says (feature E19)."""

from pathlib import Path

from bot.agent.messages import Usage, UserMessage, estimate_tokens
from bot.agent.settings import AgentsSettings
from bot.subagents.limits import SubagentSettings
from bot.values import RunStatus, short
from tests.fakes.anthropic_server import Reply
from tests.fakes.patience import eventually
from tests.stories.stage import ALICE, Play, call, said, stage

LONG = "\n".join(f"Barn {number} holds {number * 7} sheep." for number in range(1, 250))
SHORT = "249 barns; the last holds 1,743 sheep."
HEAD = "---\nname: counter\ndescription: Counts.\ntools: []\n{more}---\nCount."
SUMMARIZE = "summarize: Only the sum.\n"


def counter(folder: Path, more: str = SUMMARIZE) -> AgentsSettings:
    """Return settings by which there is an agent `counter`."""
    (folder / "counter.md").write_text(HEAD.format(more=more))
    return AgentsSettings(folders=(str(folder),))


def counting(*answers: Reply) -> Play:
    wanted = {"task": "Count barns", "agent": "counter", "tools_needed": []}
    return Play(
        main=[call("delegate_to_subagent", **wanted), Reply(text="Many.")],
        runs={"Count barns": list(answers)},
    )


async def test_the_main_agent_gets_the_summary_and_the_log_keeps_the_whole(
    database_url: str, tmp_path: Path
) -> None:
    play = counting(Reply(text=LONG), Reply(text=SHORT))
    async with stage(database_url, play, agents=counter(tmp_path)) as it:
        await it.say(ALICE, "How many?")
        await it.outlet.replied()
        run = await it.run_of("Count barns")
        log = await it.command(ALICE, "/subagents log last 13")

        question = play.asked[2]
        assert "Only the sum." in str(question["system"])
        assert "Barn 249 holds" in said(question["messages"][0])
        assert not question.get("tools")
        told = said(play.asked[-1]["messages"][-1])
        assert SHORT in told
        assert f"`sessions_log` with run_id {short(run.id)}" in told
        assert "Barn 7 " not in told
        assert (run.result, run.status) == (LONG, RunStatus.COMPLETED)
        assert "Barn 249 holds 1743 sheep." in log.text


async def test_its_tokens_are_the_runs(database_url: str, tmp_path: Path) -> None:
    work, summary = Usage(100, 20), Usage(70, 5)
    play = counting(Reply(text=LONG, usage=work), Reply(text=SHORT, usage=summary))
    async with stage(database_url, play, agents=counter(tmp_path)) as it:
        await it.say(ALICE, "How many?")
        await it.outlet.replied()

        run = await it.run_of("Count barns")
        assert (run.input_tokens, run.output_tokens) == (170, 25)


async def test_a_run_that_is_stopped_while_it_is_shortened_pays_for_the_question(
    database_url: str, tmp_path: Path
) -> None:
    play = counting(Reply(text=LONG, usage=Usage(100, 20)), Reply(fault="hang"))
    async with stage(database_url, play, agents=counter(tmp_path)) as it:
        await it.say(ALICE, "How many?")

        async def shortening() -> bool:
            return len(play.asked) == 3

        await eventually(shortening, "the question for a summary")
        await it.command(ALICE, "/subagents stop last")
        await it.outlet.replied()

        run = await it.run_of("Count barns")
        assert run.status is RunStatus.CANCELLED
        assert run.input_tokens > 100 + estimate_tokens((UserMessage(LONG),))


async def test_a_short_result_is_left_as_it_is(database_url: str, tmp_path: Path) -> None:
    play = counting(Reply(text="Twelve barns."))
    async with stage(database_url, play, agents=counter(tmp_path)) as it:
        await it.say(ALICE, "How many?")
        await it.outlet.replied()

        assert len(play.asked) == 3
        assert "Twelve barns." in said(play.asked[-1]["messages"][-1])


async def test_without_an_instruction_a_long_result_goes_back_whole(
    database_url: str, tmp_path: Path
) -> None:
    play = counting(Reply(text=LONG))
    async with stage(database_url, play, agents=counter(tmp_path, more="")) as it:
        await it.say(ALICE, "How many?")
        await it.outlet.replied()

        assert "Barn 249 holds" in said(play.asked[-1]["messages"][-1])


async def test_with_no_tokens_left_a_long_result_goes_back_whole(
    database_url: str, tmp_path: Path
) -> None:
    play = counting(Reply(text=LONG, usage=Usage(3_000, 2_000)))
    limits = SubagentSettings(default_token_budget=6_000)
    async with stage(database_url, play, agents=counter(tmp_path), subagents=limits) as it:
        await it.say(ALICE, "How many?")
        await it.outlet.replied()

        assert len(play.asked) == 3
        assert "Barn 249 holds" in said(play.asked[-1]["messages"][-1])
        assert (await it.run_of("Count barns")).status is RunStatus.COMPLETED


async def test_when_the_summary_fails_the_result_goes_back_whole(
    database_url: str, tmp_path: Path
) -> None:
    broken = Reply(status=400, kind="invalid_request_error", text="no")
    async with stage(
        database_url, counting(Reply(text=LONG), broken), agents=counter(tmp_path)
    ) as it:
        await it.say(ALICE, "How many?")
        await it.outlet.replied()

        assert "Barn 249 holds" in said(it.play.asked[-1]["messages"][-1])
        assert (await it.run_of("Count barns")).status is RunStatus.COMPLETED


async def test_people_are_told_the_whole_result_of_a_background_run(
    database_url: str, tmp_path: Path
) -> None:
    play = Play(
        main=[
            call("sessions_spawn", task="Count barns", agent="counter"),
            Reply(text="Started."),
            Reply(text="As I said."),
        ],
        runs={"Count barns": [Reply(text=LONG), Reply(text=SHORT)]},
    )
    async with stage(database_url, play, agents=counter(tmp_path)) as it:
        await it.say(ALICE, "Count them.")
        await it.outlet.replied()
        told = await it.outlet.announced((await it.run_of("Count barns")).id)
        await it.say(ALICE, "How many were there?")
        await it.outlet.replied(2)

        assert told.text == LONG
        known = "\n".join(said(message) for message in play.asked[-1]["messages"])
        assert SHORT in known
        assert "Barn 7 " not in known
