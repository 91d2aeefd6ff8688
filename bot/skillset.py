"""The skills of a bot, with whatever they need opened."""

import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from bot.agent.definition import Agents
from bot.config import Config
from bot.mcp.pins import Pins
from bot.mcp.servers import McpServers
from bot.net.addresses import AnyAddress
from bot.net.guard import open_guarded
from bot.net.web import Web
from bot.rest.services import RestServices
from bot.sandbox.host import SandboxUnavailableError
from bot.sandbox.selftest import open_sandbox
from bot.sandbox.settings import Room
from bot.sandbox.shell import Sandbox
from bot.schedules.book import ScheduleBook
from bot.schedules.fires import Fires
from bot.search.catalog import provider_of
from bot.subagents.manager import SubagentManager
from bot.subagents.records import Records
from bot.tasks import Tasks
from bot.values import Clock
from bot.wires import Wires
from bot.workspaces.workspaces import Workspaces
from db.database import Database
from skills import agents as agent_tools
from skills import (
    clock,
    files,
    mcp,
    memory,
    notes,
    rest,
    scheduler,
    shell,
    subagents,
    todo,
    web,
    whiteboard,
)
from skills.base import Skill

log = logging.getLogger(__name__)


class Skillset:
    """Opens what skills need, and builds them.

    Args:
        config: Says which there are.
        database: Keeps what they keep.
        tasks: Owns what goes on in the background.
        agents: Those that a schedule may name.
        wires: Lead to the parts that are built later.
        now: The time.
    """

    def __init__(
        self,
        config: Config,
        database: Database,
        tasks: Tasks,
        agents: Agents,
        wires: Wires,
        now: Clock,
    ) -> None:
        self._config = config
        self._database = database
        self._agents = agents
        self._wires = wires
        self._now = now
        self._mcp = McpServers(
            config.mcp, Pins(database, now), tasks=tasks, environ=dict(os.environ)
        )
        self._rest = RestServices(
            config.rest, tasks=tasks, open_client=lambda: open_guarded(AnyAddress())
        )
        self._sandbox: Sandbox | None = None

    async def open(self, stack: AsyncExitStack) -> None:
        """Open what is needed, for as long as the stack lasts."""
        await stack.enter_async_context(self._mcp.running())
        await stack.enter_async_context(self._rest.running())
        await self._open_sandbox(stack)

    async def _open_sandbox(self, stack: AsyncExitStack) -> None:
        """Open the sandbox of commands; where there is none, nobody is offered one."""
        workspaces = self._config.workspaces
        if not (workspaces.enabled and self._config.shell.enabled):
            return
        room = Room(workspaces.user_bytes, workspaces.user_files)
        try:
            self._sandbox = await stack.enter_async_context(open_sandbox(self._config.shell, room))
        except SandboxUnavailableError as error:
            log.info("The shell tool is off. %s", error)

    def build(self, manager: SubagentManager, records: Records) -> list[Skill]:
        """Return all skills."""
        config, database = self._config, self._database
        found = [
            notes.build(database),
            memory.build(database),
            todo.build(database),
            clock.build(config.agent.timezone),
            whiteboard.build_for_main(database, self._wires.board_of, self._now),
            *self._of_files(),
            *self._of_the_web(),
            *mcp.build(self._mcp),
            *rest.build(self._rest),
        ]
        if config.subagents.enabled:
            nested = config.subagents.max_depth > 1
            found[:0] = [
                subagents.build(manager, records, nested=nested),
                agent_tools.build(manager, self._agents),
            ]
            if config.schedules.enabled:
                found.append(scheduler.build(self._book()))
        return found

    def _of_files(self) -> list[Skill]:
        if not self._config.workspaces.enabled:
            return []
        workspaces = Workspaces(self._config.workspaces)
        found = [files.build(workspaces)]
        if self._sandbox is not None:
            found.append(shell.build(self._sandbox, workspaces.folder_of))
        return found

    def _of_the_web(self) -> list[Skill]:
        fetch = self._config.fetch
        pages = Web(fetch) if fetch.enabled else None
        search = provider_of(self._config.search, fetch)
        return [web.build(pages, search, seconds=fetch.seconds)] if pages or search else []

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
        """Return what skills have to do regularly, where outlets for these platforms are."""
        if not (self._config.subagents.enabled and self._config.schedules.enabled):
            return []
        fires = Fires(
            database=self._database,
            manager=manager,
            settings=self._config.schedules,
            access=self._config.access,
            platforms=platforms,
            announce=self._wires.announce,
            now=self._now,
        )
        return [fires.fire_due]
