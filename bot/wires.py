"""Ties between parts that must know one another."""

from collections.abc import Sequence

from bot.conversations.announcements import Announcements
from bot.conversations.orchestrator import Orchestrator
from bot.engine import Engine
from bot.subagents.endings import Hooks
from bot.subagents.manager import SubagentManager
from bot.subagents.records import Records
from bot.subagents.requests import Caller
from bot.subagents.runner import Runner
from bot.subagents.settling import Settling
from bot.tasks import Tasks
from db.runs import Run
from skills.base import ToolContext
from skills.registry import SkillRegistry


class Wires:
    """Ties parts together that must know one another: filled in while they are built."""

    registry: SkillRegistry
    manager: SubagentManager
    orchestrator: Orchestrator
    announcements: Announcements
    engine: Engine
    runner: Runner
    settling: Settling

    def __init__(self, tasks: Tasks, *, alone: bool, own_tools: frozenset[str]) -> None:
        self._tasks = tasks
        #: The tools that only runs have.
        self.own_tools = own_tools
        self.alone = alone

    def hooks(self) -> Hooks:
        """Return what the runs call after a commit."""
        return Hooks(
            admitted=self.admitted,
            announce=self.announce,
            wake=self.wake,
            settle=self.settle,
        )

    def announce(self, key: str) -> None:
        """Deliver an announcement."""
        self.announcements.deliver_soon(key)

    def wake(self, conversation_id: str, platform: str) -> None:
        """Look whether a turn waits."""
        self.orchestrator.wake(conversation_id, platform)

    def settle(self, question_id: str) -> None:
        """Show that a question of a run waits no more."""
        self.settling.soon(question_id)

    def resolve(self, names: Sequence[str]) -> frozenset[str]:
        """Return the tools that names of tools and skills mean."""
        own = self.own_tools.intersection(names)
        return own | self.registry.resolve([name for name in names if name not in own])

    def admitted(self, run: Run) -> None:
        """Hand a run to the engine; delegated tasks are worked off by whoever waits for them."""
        if run.mode != "async":
            return
        # On a file there is one process, and nobody to share the queue with.
        hand = self.engine.start if self.alone else self.engine.submit
        work = hand("run", run.id, run.place.platform)
        self._tasks.start(work, name=f"submit {run.id}", fresh_context=True)

    async def work(self, run_id: str) -> None:
        """Work a run off in place."""
        await self.runner.work(run_id)

    async def board_of(self, context: ToolContext, handle: str) -> str:
        """Return the id of the run whose whiteboard the main agent means."""
        records = self.records
        return (await records.find(handle, Caller.of(context), action="whiteboard")).id

    records: Records
