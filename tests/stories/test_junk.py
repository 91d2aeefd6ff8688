"""Whatever a model gives to a tool, it is told in a sentence what was wrong; nothing breaks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import select

from bot.agent.messages import ToolCall
from bot.agent.toolbox import Toolbox
from bot.conversations.approvals import Approvals
from bot.conversations.deciding import Deciders
from bot.events import EventBus
from bot.values import Json, Role, utc_now
from db import tables
from skills import ask_user, progress, whiteboard
from skills.base import Tool, ToolContext
from skills.files.settings import WorkspaceSettings
from tests.fakes.bank import no_role
from tests.stories.stage import ALICE, PLATFORM, ROOM, Play, Stage, stage


def nested(levels: int) -> Json:
    """Return objects in one another."""
    inner: Json = {}
    for _ in range(levels):
        inner = {"a": inner}
    return inner


HALF = "\ud83d"
JUNK: tuple[Any, ...] = (
    *("", " ", f"a{HALF}b/*", "\udcff", "a\x00b", "\u202e\u200b", "x" * 90_000),
    *("../../etc/passwd", "(" * 900, "[", "{a,"),
    *(f"https://{HALF}/", "9999-12-31T23:59:59-23:59", "* * 31 2 *"),
    *(-1, 1 << 63, float("nan")),
    *(None, [], [HALF], nested(50), {HALF: HALF}),
)
#: So that a call with one thing wrong gets as far as it can.
SENSIBLE: dict[str, Any] = {
    "path": "notes.txt",
    "pattern": "*",
    "run_id": "last",
    "when": "2099-01-01T10:00",
    "cron": "0 9 * * *",
    "start": "2099-01-01T10:00",
    "end": "2099-01-01T11:00",
    "url": "http://127.0.0.1:1/",
}
OF_TYPE: dict[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "array": [],
    "object": {},
}


def arguments_for(schema: Json) -> Iterator[Json]:
    """Give arguments of which one is junk and the others make sense."""
    yield from ({}, {"no_such": 1}, {HALF: HALF}, {"\x00": None})
    properties: Json = schema.get("properties", {})
    needed = {name: sensible(name, properties[name]) for name in schema.get("required", ())}
    for name, kind in properties.items():
        for junk in JUNK:
            yield {**needed, name: junk}
        for item in inside(kind.get("items", {})):
            yield {**needed, name: [item]}


def inside(items: Json) -> Iterator[Any]:
    """Give junk for one item of a list."""
    if "properties" in items:
        yield from arguments_for(items)
    elif items:
        yield from JUNK


def sensible(name: str, kind: Json) -> Any:
    """Return a value that the tool may take."""
    if name in SENSIBLE:
        return SENSIBLE[name]
    return kind["enum"][0] if "enum" in kind else OF_TYPE[kind.get("type", "string")]


def context_of(work_id: str, run_id: str | None = None) -> ToolContext:
    return ToolContext(
        user=ALICE,
        role=Role.USER,
        place=ROOM,
        conversation_id="c1",
        work_id=work_id,
        call_id="",
        run_id=run_id,
        now=utc_now,
        depth=0 if run_id is None else 1,
    )


async def broken(toolbox: Toolbox, tools: list[Tool], context: ToolContext) -> list[str]:
    """Make all calls, and return those that were not answered by a sentence."""
    found = []
    for tool in tools:
        for number, arguments in enumerate(arguments_for(tool.schema)):
            call_id = f"{tool.name}{number}"
            call = ToolCall(call_id, tool.name, arguments)
            try:
                result = await toolbox.call(call, replace(context, call_id=call_id))
            except Exception as error:  # noqa: BLE001 - which one is what the test tells
                found.append(f"{tool.name} {arguments!r:.200}: {error!r:.200}")
            else:
                if "failed on our side" in result.text or not result.text:
                    found.append(f"{tool.name} {arguments!r:.200}: {result.text:.200}")
    return found


def box(it: Stage, tools: list[Tool], *, is_subagent: bool) -> Toolbox:
    asks = Approvals(
        it.bot.database,
        {PLATFORM: it.outlet},
        it.bot.registry.find,
        EventBus(),
        utc_now,
        Deciders(no_role),
        it.bot.tasks,
    )
    return Toolbox(
        tools,
        is_subagent=is_subagent,
        tasks=it.bot.tasks,
        timeout_seconds=10,
        approver=None if is_subagent else asks,
    )


async def conversation_of(it: Stage) -> str:
    """Let the user begin a conversation, and return its id."""
    await it.say(ALICE, "Hello")
    await it.outlet.replied()
    async with it.bot.database.snapshot() as tx:
        found = await tx.execute(select(tables.conversations.c.id))
    return str(found.scalar_one())


async def test_no_tool_of_the_main_agent_breaks_on_junk(sqlite_url: str, tmp_path: Path) -> None:
    folder = WorkspaceSettings(folder=str(tmp_path / "workspaces"))
    async with stage(sqlite_url, Play(runs={"": []}), workspaces=folder) as it:
        context = replace(context_of("t1"), conversation_id=await conversation_of(it))
        offered = it.bot.registry.tools_for(is_subagent=False)
        tools = [tool for tool in offered if tool.name != "wait_here"]
        asked = [tool for tool in tools if tool.needs_confirmation]
        # What happens after a user's yes is to be as sound as what happens before.
        done = [replace(tool, needs_confirmation=False, prepare=None) for tool in asked]

        found = await broken(box(it, tools, is_subagent=False), tools, context)
        found += await broken(box(it, done, is_subagent=False), done, context)

    assert found == []
    assert len(tools) > 30


async def test_no_tool_that_only_runs_have_breaks_on_junk(sqlite_url: str) -> None:
    async with stage(sqlite_url, Play(runs={"": []})) as it:
        await it.command(ALICE, "/subagents spawn --agent general sheep")
        run = await it.run_of("sheep")
        board = whiteboard.build_for_runs(it.bot.database, utc_now)
        tools = [*board.tools, progress.report_progress, ask_user.ask_user]
        context = replace(context_of(run.id, run.id), conversation_id=run.conversation_id)

        found = await broken(box(it, tools, is_subagent=True), tools, context)

    assert found == []
