"""Whiteboards: data that the main agent and a run share, one board per run."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Annotated

from bot.agent.sanitizer import escape_for_model, one_line, stored
from bot.changes import CAN_BE_UNDONE
from bot.errors import BadRequestError, BotError
from bot.subagents.requests import Caller
from bot.values import Clock, Json, short
from db import changes, whiteboard
from db.database import Database, Transaction
from db.whiteboard import MOST_CHARACTERS
from skills.base import Reach, Skill, Tool, ToolContext, ToolError, changes_own, reads_here
from skills.declaration import BotServices, SkillDeclaration, SkillParts

#: The result of reading a missing key.
MISSING = "null"

GUIDE = """\
Each run has a whiteboard that you share with it: for inputs too long for its task
(`sessions_spawn(whiteboard={...})` or whiteboard_write), and for results. Tell it which keys to
read and write."""

ToolDecorator = Callable[[Callable[..., Awaitable[str]]], Tool]

_Value = Annotated[str, f"At most {MOST_CHARACTERS:,} characters"]


#: Returns the full id of the run that a handle denotes. It raises `NotFoundError`, in the same
#: words, if no such run exists and if it belongs to another user.
Resolve = Callable[[ToolContext, str], Awaitable[str]]


class Boards:
    """The operations on a whiteboard, shared by the tools of all agents."""

    def __init__(self, database: Database, now: Clock) -> None:
        self._database = database
        self._now = now

    async def write(self, context: ToolContext, board: str, key: str, value: str) -> str:
        """Store a value under a key, replacing any other value."""
        value, key = await asyncio.to_thread(stored, value), stored(key)
        async with self._database.transaction() as tx:
            kept = await self._keep(tx, context, board, key, after=value)
            await whiteboard.write(tx, board, key, value, self._now(), work_id=context.work_id)
        return f"Written. {CAN_BE_UNDONE}" if kept else "Written."

    async def read(self, board: str, key: str) -> str:
        """Return the value under a key; `MISSING` for none."""
        value = await self._database.read(whiteboard.read, board, stored(key))
        return MISSING if value is None else value

    async def listed(self, board: str) -> str:
        """Return all keys with the beginnings of their values, as lines of JSON."""
        entries = await self._database.read(whiteboard.entries, board)
        rows = [json.dumps(asdict(entry), ensure_ascii=False) for entry in entries]
        return "\n".join(rows) or "The whiteboard is empty."

    async def remove(self, context: ToolContext, board: str, key: str) -> str:
        """Delete a key."""
        key = stored(key)
        async with self._database.transaction() as tx:
            kept = await self._keep(tx, context, board, key, after=None)
            there = await whiteboard.remove(tx, board, key)
        if not there:
            return "There was nothing under this key."
        return f"Deleted. {CAN_BE_UNDONE}" if kept else "Deleted."

    async def reach(
        self, context: ToolContext, board: str, key: str, *, after: str | None
    ) -> Reach:
        """Return the reach of a change: it may push former values out of the undo store."""
        async with self._database.snapshot() as tx:
            before = await self._replaced(tx, context, board, stored(key), after=after)
            if before is None or await changes.has_room(
                tx, context.user.key, WhiteboardRestorer.kind
            ):
                return Reach.CHANGES_OWN
        return Reach.DESTROYS

    async def _replaced(
        self, tx: Transaction, context: ToolContext, board: str, key: str, *, after: str | None
    ) -> whiteboard.Value | None:
        """Return the value that a change replaces; values of the same work need no undo."""
        before = await whiteboard.value_of(tx, board, key)
        if before is None or before.text == after or before.work_id == context.work_id:
            return None
        return before

    async def _keep(
        self, tx: Transaction, context: ToolContext, board: str, key: str, *, after: str | None
    ) -> bool:
        before = await self._replaced(tx, context, board, key, after=after)
        if before is None:
            return False
        key = whiteboard.key_of(key)
        await changes.keep(
            tx,
            context.cause,
            kind=WhiteboardRestorer.kind,
            key=f"{board}/{key}",
            title=f"“{one_line(key, 60)}” on the whiteboard of run {short(board)}",
            before={"value": before.text},
            after=None if after is None else {"value": after},
            now=self._now(),
            drops=not context.spares_former,
        )
        return True


class WhiteboardRestorer:
    """Restores deleted or replaced values of whiteboards."""

    kind = "whiteboard"

    def __init__(self, now: Clock) -> None:
        self._now = now

    async def state(self, tx: Transaction, user: str, key: str) -> Json | None:
        """Return the value under a key of a user's board."""
        board, _, name = key.partition("/")
        if not await whiteboard.is_board_of(tx, board, user):
            return None
        value = await whiteboard.read(tx, board, name)
        return None if value is None else {"value": value}

    async def restore(
        self, tx: Transaction, user: str, key: str, before: Json | None, *, beside: bool
    ) -> tuple[str, str]:
        """Restore a value of a user's board; `None` deletes it again.

        Raises:
            BadRequestError: The run is deleted, or its board is full.
        """
        board, _, name = key.partition("/")
        if not await whiteboard.is_board_of(tx, board, user):
            raise BadRequestError("The run is deleted, and its whiteboard with it.")
        if before is None:
            await whiteboard.remove(tx, board, name)
            return key, "It is deleted again."
        if beside:
            for number in range(1, whiteboard.MOST_KEYS + 2):
                ending = f".restored-{number}"
                free = name[: whiteboard.MOST_KEY_CHARACTERS - len(ending)] + ending
                if await whiteboard.read(tx, board, free) is None:
                    name = free
                    break
            else:
                raise BadRequestError("The whiteboard is full: delete some keys.")
        await whiteboard.write(tx, board, name, before["value"], self._now())
        return f"{board}/{name}", f"It is under “{one_line(name, 60)}”."


def build_for_runs(database: Database, now: Clock) -> Skill:
    """Return the tools of a run for its own board. Runs are given them; they are not registered."""
    boards = Boards(database, now)

    async def board_of(context: ToolContext, _: Json) -> str:
        return _own(context)

    reads, writes = _decorators(boards, board_of, main_agent_only=False)

    @writes
    async def whiteboard_write(context: ToolContext, key: str, value: _Value) -> str:
        """Put a text on the whiteboard that you share with whoever gave the task."""
        return await boards.write(context, _own(context), key, value)

    @reads
    async def whiteboard_read(context: ToolContext, key: str) -> str:
        """Read from the whiteboard; `null` if there is nothing."""
        return await boards.read(_own(context), key)

    @reads
    async def whiteboard_list(context: ToolContext) -> str:
        """List what is on the whiteboard."""
        return await boards.listed(_own(context))

    @writes
    async def whiteboard_delete(context: ToolContext, key: str) -> str:
        """Delete from the whiteboard."""
        return await boards.remove(context, _own(context), key)

    return _skill((whiteboard_write, whiteboard_read, whiteboard_list, whiteboard_delete))


def build_for_main(database: Database, resolve: Resolve, now: Clock) -> Skill:
    """Return the main agent's tools for the boards of its user's runs."""
    boards = Boards(database, now)

    async def board_of(context: ToolContext, given: Json) -> str:
        return await resolve(context, given["run_id"])

    reads, writes = _decorators(boards, board_of, main_agent_only=True)

    @writes
    async def whiteboard_write(context: ToolContext, run_id: str, key: str, value: _Value) -> str:
        """Put a text on a run's whiteboard."""
        return await boards.write(context, await resolve(context, run_id), key, value)

    @reads
    async def whiteboard_read(context: ToolContext, run_id: str, key: str) -> str:
        """Read from a run's whiteboard; `null` if there is nothing."""
        value = await boards.read(await resolve(context, run_id), key)
        return await asyncio.to_thread(escape_for_model, value)

    @reads
    async def whiteboard_list(context: ToolContext, run_id: str) -> str:
        """List what is on a run's whiteboard."""
        listed = await boards.listed(await resolve(context, run_id))
        return await asyncio.to_thread(escape_for_model, listed)

    @writes
    async def whiteboard_delete(context: ToolContext, run_id: str, key: str) -> str:
        """Delete from a run's whiteboard."""
        return await boards.remove(context, await resolve(context, run_id), key)

    tools = (whiteboard_write, whiteboard_read, whiteboard_list, whiteboard_delete)
    return _skill(tools, guide=GUIDE)


def _decorators(
    boards: Boards,
    board_of: Callable[[ToolContext, Json], Awaitable[str]],
    *,
    main_agent_only: bool,
) -> tuple[ToolDecorator, ToolDecorator]:
    """Return the decorators of the tools that read the board of a call, and that change it."""

    async def reach_of(context: ToolContext, given: Json) -> Reach:
        try:
            board = await board_of(context, given)
            return await boards.reach(context, board, given["key"], after=given.get("value"))
        except BotError:
            # The call itself reports the problem with the run or the key.
            return Reach.CHANGES_OWN

    reads = reads_here(main_agent_only=main_agent_only, foreign=True, private=True)
    writes = changes_own(main_agent_only=main_agent_only, reach=Reach.DESTROYS, reach_of=reach_of)
    return reads, writes


def _skill(tools: tuple[Tool, ...], *, guide: str = "") -> Skill:
    return Skill(name="whiteboard", description="Data shared with a run.", tools=tools, guide=guide)


def _own(context: ToolContext) -> str:
    if context.run_id is None:
        raise ToolError("Only a run has a whiteboard of its own: name the run with `run_id`.")
    return context.run_id


def _parts(services: BotServices) -> SkillParts:
    async def board_of(context: ToolContext, handle: str) -> str:
        """Return the id of the run whose whiteboard the main agent means."""
        run = await services.records.find(handle, Caller.of(context), action="whiteboard")
        return run.id

    return SkillParts(
        skills=(build_for_main(services.database, board_of, services.now),),
        run_tools=build_for_runs(services.database, services.now).tools,
        restorers=(WhiteboardRestorer(services.now),),
    )


SKILL = SkillDeclaration(build=_parts)
