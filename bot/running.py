"""A running bot, and how it comes to its end."""

import asyncio
import logging
from dataclasses import dataclass

from bot.config import Config
from bot.conversations.announcements import Announcements
from bot.conversations.orchestrator import Orchestrator
from bot.conversations.upkeep import Upkeep
from bot.engine import Engine
from bot.events import EventBus
from bot.models.catalog import Models
from bot.subagents.manager import SubagentManager
from bot.tasks import Tasks
from db.database import Database
from skills.base import Effects
from skills.registry import SkillRegistry

log = logging.getLogger(__name__)

#: What replies that are being given, and calls with side effects, get to come to their end.
DRAIN_SECONDS = 5.0
#: What it may take to hand over what is left.
HAND_OVER_SECONDS = 1.5


@dataclass(slots=True)
class Bot:
    """A running bot: what the edge needs of it."""

    config: Config
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

    async def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Begin nothing more, hand runs over, and let replies come to their end, at most so long.

        What is left is resumable: another process, or the next start, goes on with it.
        """
        self.engine.drain()
        self.tasks.start(self.upkeep.announce_leaving(), name="announce leaving")
        runs, turns = self.upkeep.active, self.upkeep.turns
        deadline = asyncio.get_running_loop().time() + seconds
        going = [run_id for run_id, each in runs.by_id.items() if not (each.awaited or each.idle)]
        kept = {run_id for run_id in going if seconds > 0 and self._changes_something(run_id)}
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
        # What has just ended is being announced.
        while self.announcements.under_way and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    def _changes_something(self, run_id: str) -> bool:
        """Whether a run is in a call that, once cancelled, may have run and is not repeated."""
        names = self.upkeep.cards.tools_at_work(run_id)
        found = (self.registry.find(name) for name in names)
        return any(tool is not None and tool.effects is Effects.ONCE for tool in found)
