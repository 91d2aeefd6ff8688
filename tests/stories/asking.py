"""Runs that ask their user: what their stories have in common on every platform."""

from pathlib import Path
from typing import Any

from bot.agent.settings import AgentsSettings
from bot.running import Bot
from db import runs, tables
from db.runs import Run
from skills.base import Effects, Skill, ToolContext, tool
from tests.fakes.anthropic_server import Reply
from tests.fakes.patience import eventually
from tests.stories.stage import Play, call, is_run, said

#: The front matter of an agent that asks before it paints.
ASKS = "approvals: ask\npermissions:\n  paint: ask"
#: The same, as a tool of the main agent.
ASKS_AS_TOOL = f"""{ASKS}
input_schema:
  type: object
  properties:
    what: {{type: string}}
  required: [what]"""
PAINT = call("paint", what="fence")
WHICH_CAKE = call("ask_user", question="Which cake?", options=["Apple", "Plum"])
QUESTIONS = tables.run_questions


class World:
    """Something outside that tools change: what was done to it, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    @property
    def skill(self) -> Skill:
        world = self

        @tool(effects=Effects.ONCE)
        async def paint(context: ToolContext, what: str = "it") -> str:
            """Paint something."""
            world.done.append(what)
            return "Painted."

        return Skill(name="world", description="The world.", tools=(paint,))


def painter(folder: Path, world: World, head: str = ASKS) -> dict[str, Any]:
    """Return what a bot is opened with, so that it has an agent that paints when it may."""
    text = f"---\nname: painter\ndescription: Paints things.\n{head}\n---\nPaint things.\n"
    (folder / "painter.md").write_text(text, encoding="utf-8")
    return {
        "agents": AgentsSettings(folders=(str(folder),)),
        "further_skills": [world.skill],
    }


def painting(*lines: Reply) -> Play:
    """Return a play in which the main agent starts a run that paints."""
    spawn = call("sessions_spawn", task="Paint the fence", label="painting", agent="painter")
    return Play(main=[spawn, Reply(text="Started it.")], runs={"Paint": list(lines)})


def painting_in_a_turn(*lines: Reply) -> Play:
    """Return a play in which the main agent calls the painter as a tool, and waits for it."""
    return Play(
        main=[call("painter", what="Paint the fence"), Reply(text="It is painted.")],
        runs={"Paint": list(lines)},
    )


def baking() -> Play:
    """Return a play in which a run asks its user which cake it is to be."""
    spawn = call("sessions_spawn", task="Bake a cake", label="baking")
    return Play(
        main=[spawn, Reply(text="Started it.")],
        runs={"Bake": [WHICH_CAKE, Reply(text="Baked.")]},
    )


def told_to_runs(play: Play) -> str:
    """Return everything that the model was told in the last request of a run."""
    runs = [body for body in play.asked if len(body["messages"]) > 1 and is_run(body)]
    return said(runs[-1]["messages"][-1])


async def waits_again(bot: Bot, before: Run) -> None:
    """Wait until a run that was waiting does so once more, after a restart."""

    async def waits() -> bool:
        async with bot.database.snapshot() as tx:
            run = await runs.get(tx, before.id)
        assert run is not None
        return run.attempt > before.attempt and run.status is before.status

    await eventually(waits, "the run waits again", seconds=30)
