"""`/retinue mcp`: admins see what waits and say yes to it; nobody else learns that it is there."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select

from bot.platforms.base import CommandReply
from bot.tasks import Tasks
from bot.values import Identity, Role
from db.database import Database
from db.tables import audit
from skills.mcp.commands import McpCommands
from skills.mcp.pins import Pins
from skills.mcp.servers import McpServers
from skills.mcp.settings import McpSettings
from skills.mcp.tools import Offer, offers
from tests.fakes.clock import FakeClock
from tests.fakes.commands import command_runner
from tests.fakes.office import FakeOffice, caller, limits

SETTINGS = McpSettings.model_validate(
    {"servers": {"mail": {"command": ["mail"]}, "time": {"command": ["time"]}}}
)


def listed(**descriptions: str) -> dict[str, Offer]:
    tools = [
        {"name": name, "description": text, "inputSchema": {"type": "object"}}
        for name, text in descriptions.items()
    ]
    return offers("mail", tools)[0]


class Desk:
    """Commands of a bot with two servers, of which one has changed two tools."""

    def __init__(
        self, database: Database, clock: FakeClock, tasks: Tasks, settings: McpSettings = SETTINGS
    ) -> None:
        office = FakeOffice(database, limits(), clock)
        self.pins = Pins(database, clock)
        self.servers = McpServers(settings, self.pins, tasks=tasks, environ=dict(os.environ))
        self.with_servers = command_runner(office, McpCommands(self.servers).command)
        self.without = command_runner(office)

    async def type(self, text: str, role: Role = Role.OPERATOR) -> CommandReply:
        user = Identity("fake", "", "root")
        return await self.with_servers.run(text, caller(user, role=role))


@pytest.fixture
async def desk(database: Database, clock: FakeClock) -> AsyncIterator[Desk]:
    tasks = Tasks()
    made = Desk(database, clock, tasks)
    await made.pins.review("mail", listed(send="Send it.", read="Read it."))
    await made.pins.review("mail", listed(send="Send it to me.", read="Read it ```twice.", new="!"))
    yield made
    await tasks.close()


async def test_admins_see_the_servers_and_what_changed_of_what_waits(desk: Desk) -> None:
    reply = await desk.type("/retinue mcp")

    assert not reply.failed
    assert "- `time`: not connected – it is not connected yet" in reply.text
    assert "**`send`** of mail: changed since" in reply.text
    assert "- Send it.\n+ Send it to me." in reply.text
    assert "**`new`** of mail: new since" in reply.text
    # Nothing that a server says leaves the fence it stands in.
    assert "+ Read it '''twice." in reply.text
    assert reply.text.count("```") == 6


async def test_the_command_that_is_shown_approves_what_was_shown_and_that_is_noted(
    desk: Desk, database: Database
) -> None:
    shown = (await desk.type("/retinue mcp")).text
    command = next(line for line in shown.splitlines() if "approve mail send@" in line)

    reply = await desk.type(command.partition("`")[2].removesuffix("`"))

    text = "Approved, and used from now on: `send` of mail."
    assert reply == CommandReply(text=text, private=True)
    assert [pin.tool for pin in await desk.pins.waiting("mail")] == ["new", "read"]
    async with database.snapshot() as tx:
        (note,) = (await tx.execute(select(audit))).all()
    assert (note.user_id, note.subject) == ("fake::root", "mail send")


async def test_what_changed_again_since_it_was_shown_is_not_approved(desk: Desk) -> None:
    shown = (await desk.type("/retinue mcp")).text
    command = next(line for line in shown.splitlines() if "approve mail send@" in line)
    await desk.pins.review("mail", listed(send="Send it all to me."))

    reply = await desk.type(command.partition("`")[2].removesuffix("`"))

    assert reply.failed
    assert "has changed again since that was shown" in reply.text
    assert [pin.tool for pin in await desk.pins.waiting("mail")] == ["read", "send"]


async def test_without_a_tool_whatever_waits_is_approved(desk: Desk) -> None:
    reply = await desk.type("/retinue mcp approve mail")

    assert [line.split("`")[1] for line in reply.text.splitlines()] == ["new", "read", "send"]
    assert await desk.pins.waiting("mail") == []
    again = await desk.type("/retinue mcp approve mail")
    assert (again.failed, "No tool of the MCP server mail waits" in again.text) == (True, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/retinue mcp approve mial", "There is no MCP server “mial”. There are: mail, time."),
        ("/retinue mcp approve mail sned", "No tool “sned” of mail waits"),
        ("/retinue mcp approve time", "No tool of the MCP server time waits"),
        ("/retinue mcp approve", "Usage: /retinue mcp"),
        ("/retinue mcp start time", "The MCP server time does not wait for an approval."),
        ("/retinue mcp start mial", "There is no MCP server “mial”. There are: mail, time."),
        ("/retinue mcp forget mail", "Usage: /retinue mcp"),
    ],
)
async def test_what_cannot_be_done_is_said_with_what_would_work(
    desk: Desk, text: str, said: str
) -> None:
    reply = await desk.type(text)

    assert reply.failed
    assert said in reply.text


async def test_everyone_else_is_told_that_there_is_no_such_command(desk: Desk) -> None:
    for text in ("/retinue mcp", "/retinue mcp approve mail send"):
        reply = await desk.type(text, Role.USER)
        unknown = await desk.type(text.replace("mcp", "xyz"), Role.USER)
        assert reply.failed
        assert reply.text == unknown.text.replace("xyz", "mcp")

    assert len(await desk.pins.waiting("mail")) == 3
    assert "mcp" not in (await desk.type("/help", Role.USER)).text
    assert "/retinue mcp approve SERVER" in (await desk.type("/help")).text


async def test_a_bot_without_servers_has_no_such_command(desk: Desk) -> None:
    admin = caller(Identity("fake", "", "root"), role=Role.OPERATOR)

    reply = await desk.without.run("/mcp", admin)

    assert reply.text.startswith("There is no command /mcp.")
    assert "mcp" not in (await desk.without.run("/help", admin)).text


async def test_a_server_of_a_file_is_shown_with_the_command_that_starts_it(
    database: Database, clock: FakeClock, tasks: Tasks, tmp_path: Path
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"mail": {"command": "mail", "args": ["--read"]}}}')
    file.chmod(0o600)
    settings = McpSettings.model_validate({"files": [str(file)]})
    desk = Desk(database, clock, tasks, settings)
    request = desk.servers.servers["mail"].request
    assert request is not None
    assert not await desk.pins.admits(request)

    shown = (await desk.type("/retinue mcp")).text
    command = next(line for line in shown.splitlines() if "mcp start mail@" in line)
    odd = await desk.type("/retinue mcp start mail@00000000")
    reply = await desk.type(command.partition("`")[2].removesuffix("`"))

    assert "**The server `mail`**: new since" in shown
    assert '+     "--read"' in shown
    assert (odd.failed, "look at it anew" in odd.text) == (True, True)
    assert (reply.failed, reply.text.startswith("`mail` is started.")) == (False, True)
    assert await desk.pins.admits(request)
