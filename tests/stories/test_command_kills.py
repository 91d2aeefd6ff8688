"""Commands that change something have their effect once wherever their process is killed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from bot.values import Json, Place, Role, utc_now
from db import users
from db.database import Database, DatabaseSettings
from db.tables import audit
from migrations.run import ensure_current
from skills import notes
from skills.base import ToolContext
from skills.files.settings import WorkspaceSettings
from skills.files.workspaces import Workspaces
from skills.mcp.pins import Pins
from skills.mcp.tools import offers
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.calls import Caller
from tests.fakes.patience import eventually
from tests.stories.actor import Actor, actor
from tests.stories.stage import ALICE, PLATFORM, Play

pytestmark = pytest.mark.timeout(120)

#: When the command is stored, and when only its answer is missing.
STORED = "after INSERT INTO seen_events"
UNANSWERED = "before DELETE FROM commands"


async def delivered_again(bot: Actor, user: str, text: str) -> None:
    """Let the platform deliver the command again, and wait until its user was told of it."""
    for _ in range(2):
        bot.say(user, text, event_id="E1")
    await bot.until(lambda line: line["event"] in {"told", "answer"})
    await bot.answer_with(user, "/subagents usage", "Your usage")


def told_of(bot: Actor) -> int:
    """Return how often the users were told of the command that killed the process before."""
    shown = [line["text"] for line in bot.events("answer")]
    answers = [text for text in shown if "Your usage" not in text and "take back" not in text]
    return len(bot.events("told")) + len(answers)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    """Open the database of the bot beside it."""
    settings = DatabaseSettings(url=url)
    async with Database.open(settings) as database:
        await ensure_current(database, settings)
        yield database


# -- undo ------------------------------------------------------------------------------------------


async def deleted_notes(database: Database, *texts: str) -> None:
    """Let the main agent save notes for Alice and delete them."""
    async with database.transaction() as tx:
        await users.ensure_user(tx, ALICE, "Alice", utc_now())
    caller = Caller(notes.build(database), ALICE, utc_now)
    for text in texts:
        await caller.call("note_save", text=text)
    for number in range(1, len(texts) + 1):
        await caller.call("note_delete", number=number)


@pytest.mark.parametrize(
    "crash_at", [STORED, "before UPDATE changes", "after UPDATE changes", UNANSWERED]
)
async def test_an_undo_takes_back_one_change_wherever_its_process_is_killed(
    sqlite_url: str, crash_at: str
) -> None:
    async with opened(sqlite_url) as database, FakeAnthropic(Play()) as server:
        await deleted_notes(database, "Feed the owl", "Feed the cat")
        async with actor(sqlite_url, server.url, crash_at=crash_at) as first:
            first.say("alice", "/retinue undo last", event_id="E1")
            await first.gone()
        async with actor(sqlite_url, server.url) as second:
            await delivered_again(second, "alice", "/retinue undo last")
            listed = await second.answer_with("alice", "/retinue undo", "take back")

    assert "deleted note 1" in listed["text"]
    assert "deleted note 2" not in listed["text"]
    assert "brought back note 1" not in listed["text"]
    assert listed["text"].count("brought back note 2") == 1
    assert told_of(second) == 1


FILES = 500


def deleted_files(folder: Path) -> Path:
    """Let a conversation replace a file and then remove many; return the workspace."""
    workspaces = Workspaces(WorkspaceSettings(folder=str(folder)))
    context = ToolContext(
        user=ALICE,
        role=Role.USER,
        place=Place(PLATFORM),
        conversation_id="c1",
        work_id="turn-1",
        call_id="call-1",
        run_id=None,
        now=utc_now,
    )
    workspace = workspaces.of(context)
    for text in ("mine", "tidy"):
        workspace.write("plan.md", text.encode())
    (plan,) = folder.glob("*/own/plan.md")
    for number in range(FILES):
        (plan.parent / f"{number}.txt").write_text(str(number))
    with workspace.changing() as (files, change):
        for number in range(FILES):
            change.keep(files, [f"{number}.txt"], removed=True)
    return plan.parent


async def test_an_undo_of_many_files_that_is_killed_in_the_middle_is_finished_and_made_once(
    sqlite_url: str, tmp_path: Path
) -> None:
    own = await asyncio.to_thread(deleted_files, tmp_path / "workspaces")
    sections = {"workspaces": {"folder": str(tmp_path / "workspaces")}}

    def count() -> int:
        return len(list(own.glob("*.txt")))

    async def begun() -> bool:
        return count() > 0

    async with FakeAnthropic(Play()) as server:
        async with actor(sqlite_url, server.url, sections=sections) as first:
            first.say("alice", "/retinue undo last", event_id="E1")
            await eventually(begun, "the first file is back")
            await first.kill()
        back = count()
        async with actor(sqlite_url, server.url, sections=sections) as second:
            await delivered_again(second, "alice", "/retinue undo last")

    texts = {path.name: path.read_text() for path in own.iterdir()}
    assert 0 < back < FILES
    assert texts == {"plan.md": "tidy"} | {f"{n}.txt": str(n) for n in range(FILES)}
    assert told_of(second) == 1


# -- mcp approve -----------------------------------------------------------------------------------

MCP: Json = {
    "mcp": {"servers": {"mail": {"command": ["/bin/false"]}}},
    "access": {"admins": ["fake:root"]},
}


async def offered(database: Database, **descriptions: str) -> None:
    """Let the server offer its tools in this form."""
    tools = [
        {"name": name, "description": text, "inputSchema": {"type": "object"}}
        for name, text in descriptions.items()
    ]
    await Pins(database, utc_now).review("mail", offers("mail", tools)[0])


@pytest.mark.parametrize("crash_at", [STORED, "before UPDATE mcp_pins", "after UPDATE mcp_pins"])
async def test_an_approval_of_mcp_tools_is_given_once_wherever_its_process_is_killed(
    sqlite_url: str, crash_at: str
) -> None:
    given = crash_at.startswith("after UPDATE")
    async with opened(sqlite_url) as database, FakeAnthropic(Play()) as server:
        await offered(database, send="Send it.", read="Read it.")
        await offered(database, send="Send it all.", read="Read it.")
        async with actor(sqlite_url, server.url, crash_at=crash_at, sections=MCP) as first:
            first.say("root", "/retinue mcp approve mail", event_id="E1")
            await first.gone()
        if given:
            # Nobody has seen this form.
            await offered(database, send="Send it all to me.", read="Read it.")
        async with actor(sqlite_url, server.url, sections=MCP) as second:
            await delivered_again(second, "root", "/retinue mcp approve mail")
        waiting = await Pins(database, utc_now).waiting("mail")
        async with database.snapshot() as tx:
            approved = audit.c.action == "mcp approve"
            noted = list(await tx.scalars(select(audit.c.subject).where(approved)))

    assert [pin.tool for pin in waiting] == (["send"] if given else [])
    assert noted == ["mail send"]
    assert told_of(second) == 1
