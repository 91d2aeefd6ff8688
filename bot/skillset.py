"""Opens the configured skills and registers their tools."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from bot.catalog.agents import Agents, as_tools
from bot.catalog.skills import SkillCatalog
from bot.config import Config
from bot.conversations.mcp_commands import McpCommands
from bot.conversations.undo import Undo
from bot.events import EventBus
from bot.models.catalog import Models
from bot.net.addresses import AnyAddress
from bot.net.guard import open_guarded
from bot.net.web import Web
from bot.subagents.manager import SubagentManager
from bot.subagents.records import Records
from bot.subagents.requests import Caller
from bot.tasks import Tasks
from bot.values import Clock
from db.changes import Restorer
from db.database import Database
from db.runs import Run
from skills import (
    agent_skills,
    clock,
    memory,
    notes,
    subagents,
    todo,
    whiteboard,
)
from skills import agents as agent_tools
from skills.base import Skill, ToolContext
from skills.calendar import skill as calendar
from skills.calendar.calendars import Calendars
from skills.files import skill as files
from skills.files.workspaces import Workspaces
from skills.loading import fitting, load
from skills.mcp import skill as mcp
from skills.mcp.pins import Pins
from skills.mcp.servers import McpServer, McpServers
from skills.mcp.tools import is_of, name_for
from skills.registry import SkillRegistry
from skills.rest import skill as rest
from skills.rest.services import RestServices
from skills.schedules import skill as scheduler
from skills.schedules.book import ScheduleBook
from skills.schedules.fires import Fires
from skills.shell import skill as shell
from skills.shell.commands import Commands
from skills.shell.host import SandboxUnavailableError
from skills.shell.selftest import open_sandbox
from skills.shell.settings import Room
from skills.shell.shell import Sandbox
from skills.web import skill as web
from skills.web.addresses import AddressPolicy
from skills.web.search.anthropic import Claude
from skills.web.search.base import SearchProvider
from skills.web.search.catalog import open_provider

log = logging.getLogger(__name__)


class Skillset:
    """Opens the resources of skills, builds the skills, and registers them.

    Args:
        config: The configuration, which names the skills.
        database: Stores the data of skills.
        tasks: Owns the background tasks.
        agents: The agents that a schedule may name.
        records: Finds runs by the handle that users type.
        registry: Receives the skills; knows the names in use.
        events: The bus on which schedules publish announcements.
        now: The bot's clock.

    Attributes:
        agent_skills: The Agent Skills, which any agent may be given.
    """

    def __init__(
        self,
        config: Config,
        database: Database,
        tasks: Tasks,
        agents: Agents,
        records: Records,
        registry: SkillRegistry,
        events: EventBus,
        now: Clock,
    ) -> None:
        self._config = config
        self._database = database
        self._agents = agents
        self._records = records
        self._registry = registry
        self._events = events
        self._now = now
        self._mcp = McpServers(
            config.mcp, Pins(database, now), tasks=tasks, environ=dict(os.environ)
        )
        self._rest = RestServices(
            config.rest, tasks=tasks, open_client=lambda: open_guarded(AnyAddress())
        )
        self.agent_skills = SkillCatalog([Path(each) for each in config.agent_skills.folders])
        self._sandbox: Sandbox | None = None
        self._looked_at: datetime | None = None
        self._addresses = AddressPolicy(database, config.web.composed_addresses)
        self._dropped_at: datetime | None = None
        self._search: SearchProvider | None = None

    async def open(self, stack: AsyncExitStack, models: Models) -> None:
        """Open the resources of skills; the stack closes them."""
        await stack.enter_async_context(self._mcp.running())
        await stack.enter_async_context(self._rest.running())
        self._search = await stack.enter_async_context(self._open_search(models))
        await self._open_sandbox(stack)

    def _open_search(self, models: Models) -> AbstractAsyncContextManager[SearchProvider | None]:
        settings = self._config.models
        claude = Claude(
            settings=settings.anthropic,
            patience=models.patience("anthropic"),
            answers=settings.chosen == "anthropic",
        )
        return open_provider(self._config.search, self._config.fetch, claude)

    async def _open_sandbox(self, stack: AsyncExitStack) -> None:
        """Open the sandbox for commands; without a sandbox the shell tool is not offered."""
        workspaces = self._config.workspaces
        if not (workspaces.enabled and self._config.shell.enabled):
            return
        room = Room(workspaces.user_bytes, workspaces.user_files)
        try:
            self._sandbox = await stack.enter_async_context(open_sandbox(self._config.shell, room))
        except SandboxUnavailableError as error:
            log.info("The shell tool is off. %s", error)

    @property
    def mcp_commands(self) -> McpCommands | None:
        """The admin commands for MCP servers, or `None` without any server."""
        return McpCommands(self._mcp) if self._mcp.servers else None

    async def servers_away(self) -> tuple[str, ...]:
        """Return the MCP servers that are unconnected and whose tools users may have."""
        return await self._mcp.away(self._is_offered)

    async def servers_away_for(self, run: Run) -> tuple[str, ...]:
        """Return the MCP servers that are unconnected and whose tools a run may use."""
        allowed = run.allowed_tools

        def may_use(server: McpServer) -> bool:
            named = allowed is None or any(is_of(server.name, name) for name in allowed)
            return bool(server.settings.runs) and named and self._is_offered(server)

        return await self._mcp.away(may_use)

    def _is_offered(self, server: McpServer) -> bool:
        """Return True if the permissions of the configuration leave any tool of a server.

        The tools of an unconnected server are known only if the configuration names them.
        """
        permissions = self._config.permissions.permissions
        names = ("any",) if server.settings.tools is None else server.settings.tools
        return any(permissions.offers(name_for(server.name, name)) for name in names)

    @property
    def undo(self) -> Undo:
        """The undo of changes by users."""
        config = self._config
        found: list[Restorer] = [
            notes.NoteRestorer(),
            memory.MemoryRestorer(),
            whiteboard.WhiteboardRestorer(self._now),
            self._book(),
        ]
        return Undo(
            database=self._database,
            workspaces=Workspaces(config.workspaces) if config.workspaces.enabled else None,
            restorers={each.kind: each for each in found},
            now=self._now,
        )

    def register(self, manager: SubagentManager) -> None:
        """Build all skills and register them."""
        config, database = self._config, self._database
        found = [
            notes.build(database),
            memory.build(database),
            todo.build(database),
            clock.build(config.agent.timezone),
            whiteboard.build_for_main(database, self._board_of, self._now),
            *self._of_files(),
            *self._of_the_web(),
            *self._of_skill_files(),
            *self._of_calendars(),
            *mcp.build(self._mcp),
            *rest.build(self._rest),
        ]
        if config.subagents.enabled:
            nested = config.subagents.max_depth > 1
            if config.schedules.enabled:
                found.append(scheduler.build(self._book()))
            found.insert(0, subagents.build(manager, self._records, nested=nested))
        self._registry.register(found)
        if config.subagents.enabled:
            self._registry.register([self._of_agents(manager)])
        self._registry.register(self._of_others(self._registry.skills))

    async def _board_of(self, context: ToolContext, handle: str) -> str:
        """Return the id of the run whose whiteboard the main agent means."""
        run = await self._records.find(handle, Caller.of(context), action="whiteboard")
        return run.id

    def _of_agents(self, manager: SubagentManager) -> Skill:
        is_taken = self._registry.has
        for problem in as_tools(self._agents, is_taken)[1]:
            log.warning("%s", problem)
        return agent_tools.build(manager, self._agents, is_taken)

    def _of_others(self, found: Sequence[Skill]) -> list[Skill]:
        """Return the additional skills, without those whose names collide with these."""
        config = self._config
        loaded = fitting(load(config.skills, config.fetch, config.reserve), found)
        for problem in (*self.agent_skills.problems, *loaded.problems):
            log.warning("%s", problem)
        return [each.skill for each in loaded.skills]

    def _of_skill_files(self) -> list[Skill]:
        if not self._config.agent_skills.folders:
            return []
        page = self._config.agent.tool_result_characters
        return [agent_skills.build(self.agent_skills, page_characters=page)]

    def _of_calendars(self) -> list[Skill]:
        self._config.calendar.check_libraries()
        calendars = Calendars(
            self._config.calendar,
            zone=ZoneInfo(self._config.agent.timezone),
            open_client=lambda: open_guarded(AnyAddress()),
        )
        return [calendar.build(calendars)] if calendars.any else []

    def _of_files(self) -> list[Skill]:
        if not self._config.workspaces.enabled:
            return []
        workspaces = Workspaces(self._config.workspaces, reserve=self._config.reserve)
        found = [files.build(workspaces)]
        if self._sandbox is not None:
            found.append(shell.build(Commands(self._sandbox, workspaces)))
        return found

    def _of_the_web(self) -> list[Skill]:
        fetch = self._config.fetch
        pages = Web(fetch, reserve=self._config.reserve) if fetch.enabled else None
        if pages is None and self._search is None:
            return []
        return [web.build(pages, self._search, policy=self._addresses, seconds=fetch.seconds)]

    def guide_of(self, names: tuple[str, ...], tools: tuple[str, ...]) -> str:
        """Return the text about Agent Skills in the prompt of a run.

        Args:
            names: The skills that the agent names: their full text is included.
            tools: The names of the run's tools; with `skill_read` the other skills are listed.
        """
        bodies, unknown = self.agent_skills.bodies(names)
        for name in unknown:
            log.warning("An agent names the skill %s, which is not there", name)
        there = self.agent_skills.catalog() if "skill_read" in tools else ""
        return "\n\n".join(part for part in (bodies, there) if part)

    def _book(self) -> ScheduleBook:
        return ScheduleBook(
            database=self._database,
            settings=self._config.schedules,
            agents=self._agents,
            zone=self._config.agent.timezone,
            now=self._now,
        )

    def duties(
        self, manager: SubagentManager, platforms: list[str]
    ) -> list[Callable[[], Awaitable[None]]]:
        """Return the regular duties of skills, for a process with outlets for these platforms."""
        duties: list[Callable[[], Awaitable[None]]] = []
        if self._config.workspaces.enabled:
            duties.append(self._forget_workspaces)
        if not (self._config.subagents.enabled and self._config.schedules.enabled):
            return duties
        fires = Fires(
            database=self._database,
            manager=manager,
            settings=self._config.schedules,
            access=self._config.access,
            platforms=platforms,
            events=self._events,
            now=self._now,
        )
        return [*duties, fires.fire_due]

    async def _forget_workspaces(self) -> None:
        """Delete old workspaces of runs once a day, and old former versions of files hourly."""
        now = self._now()
        workspaces = Workspaces(self._config.workspaces)
        if self._dropped_at is None or now - self._dropped_at >= timedelta(hours=1):
            self._dropped_at = now
            before = now - timedelta(days=self._config.retention.undo_days)
            await asyncio.to_thread(workspaces.forget_former, before)
        if self._looked_at is not None and now - self._looked_at < timedelta(days=1):
            return
        self._looked_at = now
        before = now - timedelta(days=self._config.retention.runs_days)
        gone = await asyncio.to_thread(workspaces.forget_runs, before)
        if gone:
            log.info("The workspaces of %d old runs were deleted", gone)
