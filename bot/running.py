"""A running bot, and its orderly shutdown."""

import asyncio
import gc
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from bot.catalog.agents import AgentCatalog
from bot.config.reloading import LiveConfig, Reload
from bot.config_reports import ConfigReports
from bot.conversations.announcements import Announcements
from bot.conversations.orchestrator import Orchestrator
from bot.conversations.upkeep import Upkeep
from bot.engine import Engine
from bot.events import EventBus
from bot.models.providers import Models
from bot.subagents.manager import SubagentManager
from bot.tasks import Tasks
from db.database import Database
from skills.base import Effects
from skills.opening import OpenSkills
from skills.registry import SkillRegistry

log = logging.getLogger(__name__)

#: Time for replies in progress, and for calls with side effects, to finish.
DRAIN_SECONDS = 5.0
#: Longest wait before it is looked again which work is left, while a process finishes.
LOOK_AGAIN_SECONDS = 1.0
#: Time to hand the remaining work over.
HAND_OVER_SECONDS = 1.5


#: New objects after which Python looks for garbage; a run at work makes thousands of them, nearly
#: all of which are freed without that.
NEW_OBJECTS = 5_000


def settle_memory() -> None:
    """Exclude the objects that live as long as the process from garbage collections.

    Python delays a full collection until the new objects are a quarter of the old ones: with all
    modules loaded that is 20 MB of garbage, and each collection would scan all modules.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


@dataclass(slots=True)
class Bot:
    """A running bot: the parts that its processes need.

    Attributes:
        draining: Set to let the process finish its work.
        finished: Set once that work has ended: the process may end.
    """

    config: LiveConfig
    config_reports: ConfigReports
    tasks: Tasks
    database: Database
    engine: Engine
    models: Models
    events: EventBus
    manager: SubagentManager
    orchestrator: Orchestrator
    announcements: Announcements
    upkeep: Upkeep
    registry: SkillRegistry
    agents: AgentCatalog
    skills: OpenSkills
    draining: asyncio.Event
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    async def on_reload(self, reload: Reload) -> None:
        """Follow a changed configuration where that takes time, and report the change."""
        problems = [] if reload.error else await self.skills.update()
        if not reload.error:
            self.agents.check_tools(self.registry.has)
        await self.config_reports.report(reload, problems)

    async def start(self, stack: AsyncExitStack) -> None:
        """Start the regular work, and register the draining with the stack."""
        await self.upkeep.enter()
        stack.push_async_callback(self.upkeep.leave)
        stack.push_async_callback(self.drain, 0)
        duties = await stack.enter_async_context(Tasks())
        duties.start(self.upkeep.run(), name="upkeep", fresh_context=True)
        self.tasks.start(self.models.warm(), name="warm up the model")
        duties.start(self._finish(), name="finish")

    async def _finish(self) -> None:
        """Once the process is drained, begin nothing more and wait for the end of its work.

        Work that waits for its user is handed over, as at any other end of the process.
        """
        await self.draining.wait()
        log.info("Finishing what is under way; nothing new begins in this process")
        self.engine.drain()
        while working := self._working():
            await asyncio.wait(working, timeout=LOOK_AGAIN_SECONDS)
        self.finished.set()

    def _working(self) -> set[asyncio.Task[None]]:
        """Return the tasks of the work that does not wait for a user."""
        runs, turns = self.upkeep.active, self.upkeep.turns
        active = [*runs.by_id.values(), *turns.by_id.values()]
        return {*(each.task for each in active if not each.idle), *runs.ending, *turns.ending}

    async def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Start no more work, hand runs over, and wait up to `seconds` for replies to finish.

        The remaining work is resumable: another process, or the next start, continues it.
        """
        self.engine.drain()
        self.tasks.start(self.upkeep.announce_leaving(), name="announce leaving")
        runs, turns = self.upkeep.active, self.upkeep.turns
        deadline = asyncio.get_running_loop().time() + seconds
        going = [run_id for run_id, each in runs.by_id.items() if not (each.awaited or each.idle)]
        # A call that may have taken effect is not repeated, so it may end.
        kept = {
            run_id
            for run_id in going
            for tool in map(self.registry.find, self.upkeep.cards.tools_at_work(run_id))
            if seconds > 0 and tool is not None and tool.effects is Effects.ONCE
        }
        if seconds > 0:
            self.upkeep.cards.pause(going)
        left = [*runs.drain(set(going) - kept)]
        working = {each.task for each in turns.by_id.values() if not each.idle}
        working.update(runs.by_id[run_id].task for run_id in kept)
        working.update(turns.ending, runs.ending)
        if working and seconds > 0:
            log.info("Waiting up to %g s for what is under way (%d)", seconds, len(working))
            await asyncio.wait(working, timeout=seconds)
        left += [*turns.drain(), *runs.drain()]
        if left:
            log.info("What is left (%d) goes on with the next start", len(left))
            await asyncio.wait(left, timeout=HAND_OVER_SECONDS)
            self.engine.offer()
        # Runs and turns that have just ended are being announced.
        while self.announcements.under_way and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
