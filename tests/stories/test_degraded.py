"""A run that completed while all its tool calls failed is shown as finished without its tools."""

from bot.errors import ToolError
from bot.platforms.base import RunCard
from bot.values import RunStatus, short
from skills.base import Effects, Skill, ToolContext, tool
from tests.fakes.anthropic_server import Reply
from tests.stories.stage import ALICE, Play, Stage, call, calls, said, stage

TITLE = "🟡 Sub-agent finished without its tools: “work”"
WHY = "Every tool call that it made was refused or failed."


@tool(effects=Effects.NONE)
async def break_down(context: ToolContext) -> str:
    """Fail."""
    raise ToolError("It is broken.")


BROKEN = Skill(name="broken", description="Fails.", tools=(break_down,))


async def worked(it: Stage) -> tuple[str, RunCard]:
    """Let a run work; return its id and its last card."""
    await it.command(ALICE, "/subagents spawn --label work Work on it")
    run = await it.ended("Work", RunStatus.COMPLETED)
    return run.id, it.outlet.cards[run.id][-1]


async def test_a_run_whose_calls_all_failed_is_shown_as_such_everywhere(database_url: str) -> None:
    both = calls(("break_down", {}), ("mcp__gone__look", {}))
    play = Play(main=[Reply(text="I see.")], runs={"Work": [both, Reply(text="It looks fine.")]})
    async with stage(database_url, play, further_skills=[BROKEN]) as it:
        run_id, card = await worked(it)
        told = await it.outlet.announced(run_id)
        listed = await it.command(ALICE, "/subagents list")
        info = await it.command(ALICE, f"/subagents info {short(run_id)}")
        read = await it.command(ALICE, f"/subagents read {short(run_id)}")
        await it.say(ALICE, "How did it go?")
        await it.outlet.replied()

    seen = "\n".join(map(said, play.asked[-1]["messages"]))
    assert (card.status, card.degraded) == (RunStatus.COMPLETED, True)
    assert told.title.startswith(TITLE)
    assert told.text == f"{WHY}\n\nIt looks fine."
    assert "🟡" in listed.text
    assert "Status: finished without its tools" in info.text
    assert TITLE in read.text
    assert WHY in seen
    assert ", finished without its tools)" in seen


async def test_one_call_that_succeeded_is_enough(database_url: str) -> None:
    one = calls(("break_down", {}), ("current_time", {}))
    play = Play(runs={"Work": [one, call("break_down"), Reply(text="It looks fine.")]})
    async with stage(database_url, play, further_skills=[BROKEN]) as it:
        run_id, card = await worked(it)
        told = await it.outlet.announced(run_id)

    assert not card.degraded
    assert told.title.startswith("🟢 Sub-agent completed")


async def test_a_run_without_calls_is_completed(database_url: str) -> None:
    play = Play(runs={"Work": [Reply(text="It looks fine.")]})
    async with stage(database_url, play) as it:
        _, card = await worked(it)

    assert not card.degraded
