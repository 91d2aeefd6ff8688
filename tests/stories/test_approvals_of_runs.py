"""`subagents.approvals`: runs of built-in agents are refused what needs a yes, or ask for it."""

from typing import Any

from bot.agent.permissions import PermissionSettings
from bot.config.model import Config
from bot.report import report
from bot.subagents.limits import SubagentSettings
from bot.values import RunStatus
from tests.fakes.anthropic_server import Reply
from tests.stories.asking import World
from tests.stories.stage import ALICE, Play, call, said, stage

ASKS = PermissionSettings(default="ask")
SPAWN = "/subagents spawn Paint the fence"


def play() -> Play:
    """Return a play in which a run of a built-in agent paints."""
    return Play(runs={"Paint": [call("paint", what="fence"), Reply(text="Over.")]})


async def test_a_run_of_a_built_in_agent_is_refused_what_needs_a_yes(database_url: str) -> None:
    world, lines = World(), play()
    async with stage(database_url, lines, further_skills=[world.skill], permissions=ASKS) as it:
        await it.command(ALICE, SPAWN)
        await it.ended("Paint", RunStatus.COMPLETED)

        assert (world.done, it.outlet.questions) == ([], [])
        assert "Permission required" in said(lines.asked[-1]["messages"][-1])
    assert "runs: they only read" in report(Config(permissions=ASKS), None, {})


async def test_with_approvals_it_asks_and_does_it_after_the_yes(database_url: str) -> None:
    world, settings = World(), SubagentSettings(approvals="ask")
    sections: dict[str, Any] = {"permissions": ASKS, "subagents": settings}
    async with stage(database_url, play(), further_skills=[world.skill], **sections) as it:
        await it.command(ALICE, SPAWN)
        question = await it.outlet.asked()
        before = list(world.done)
        await it.bot.orchestrator.answer(ALICE, question.id, choice="yes")
        await it.ended("Paint", RunStatus.COMPLETED)

        assert (before, world.done) == ([], ["fence"])
    told = report(Config(permissions=ASKS, subagents=settings), None, {})
    assert "runs: they ask the run's owner before they change something" in told
