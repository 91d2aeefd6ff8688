"""Lists the tools of MCP servers and approves waiting ones, beside a running bot."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bot.agent.sanitizer import one_line
from bot.errors import BadRequestError
from bot.values import Identity, Sections, utc_now
from db.database import DatabaseSettings
from migrations.run import opened_beside
from skills.mcp import review
from skills.mcp.pins import Pins
from skills.mcp.settings import McpSettings
from skills.mcp.starts import start_requests


async def listed(config: Sections) -> str:
    """Return the servers with their tools, and the changes of waiting tools.

    Raises:
        ConfigError: The database is unusable.
    """
    servers = config.section(McpSettings).servers
    if not servers:
        return "There are no MCP servers: `mcp.servers` in the configuration names them."
    to_start = start_requests(servers, config.section(McpSettings).written)
    async with opened_pins(config.section(DatabaseSettings)) as pins:
        known = {name: await pins.known(name) if pins else [] for name in servers}
        starts = [
            pin
            for name, request in to_start.items()
            if pins and not await pins.admits(request) and (pin := await pins.start_of(name))
        ]
    unstarted = {pin.server: pin for pin in starts}
    lines: list[str] = []
    for name, settings in servers.items():
        off = "" if settings.enabled else " (off: `enabled` is false)"
        lines += ["", f"{name}: {settings.shown}{off}"]
        if start := unstarted.get(name):
            lines.append(f"  The server is {review.described(start)}")
            lines += [f"      {line}" for line in review.difference(start)]
            lines.append(f"  To start it, and see its tools: python -m bot mcp start {name}")
        elif not known[name]:
            lines.append("  No tool is known: no bot has been connected to it yet.")
        for pin in known[name]:
            mark, called = ("✗", review.handle(pin)) if pin.waits else ("✓", pin.tool)
            lines.append(f"  {mark} {one_line(called, 200)}: {review.described(pin)}")
            if pin.waits:
                lines += [f"      {line}" for line in review.difference(pin)]
        if any(pin.waits for pin in known[name]):
            lines.append(
                f"  To approve what waits: python -m bot mcp approve {name} TOOL …, or --all"
            )
    return "\n".join(lines[1:])


async def start(config: Sections, given: str, *, name: str) -> str:
    """Approve the start of a server of a file, and return a report.

    Args:
        config: The configuration, which has been checked.
        given: The server's name, with or without the mark of the shown form.
        name: The name of the approver.

    Raises:
        BadRequestError: No such server waits.
        ConfigError: The database is unusable.
    """
    settings, server = config.section(McpSettings), given.partition("@")[0]
    review.check_known(server, settings.servers)
    async with opened_pins(config.section(DatabaseSettings)) as pins:
        pin = None
        if pins and (request := start_requests(settings.servers, settings.written).get(server)):
            await pins.admits(request)
            pin = await pins.start_of(server)
        pin = review.chosen_start(pin, given)
        assert pins is not None
        done = await pins.approve(server, by=Identity("terminal", "", name).key, shown=[pin])
    if not done:
        return f"✗ {server} has changed again this moment: look anew."
    shown = [f"      {line}" for line in review.difference(pin)]
    after = "A bot that runs starts it within a few seconds; then `python -m bot mcp list` shows"
    return "\n".join([f"✓ {server} may be started:", *shown, f"{after} its tools."])


async def approve(
    config: Sections, server: str, tools: Sequence[str], *, everything: bool, name: str
) -> str:
    """Approve waiting tools, and return a report; a running bot uses them soon.

    Args:
        config: The configuration, which has been checked.
        server: The server's name.
        tools: The names of the tools, with or without the mark of the shown version.
        everything: Whether to approve all waiting tools.
        name: The name of the approver.

    Raises:
        BadRequestError: No such server or tool can be approved; the text lists those that can.
        ConfigError: The database is unusable.
    """
    review.check_known(server, config.section(McpSettings).servers)
    if bool(tools) == everything:
        raise BadRequestError(
            "Name the tools that you approve, or write --all. `python -m bot mcp list` shows them."
        )
    async with opened_pins(config.section(DatabaseSettings)) as pins:
        waiting = await pins.waiting(server) if pins else []
        wanted = review.chosen(server, waiting, tools)
        assert pins is not None
        by = Identity("terminal", "", name).key
        done = await pins.approve(server, by=by, shown=wanted)
    lines = []
    for pin in wanted:
        if pin.tool in done:
            lines.append(f"✓ {one_line(pin.tool, 200)} of {server} is approved like this:")
        else:
            lines.append(f"✗ {one_line(pin.tool, 200)} has changed again this moment: look anew.")
        lines += [f"      {line}" for line in review.difference(pin) if pin.tool in done]
    return "\n".join([*lines, "A bot that runs uses what is approved within a few seconds."])


@asynccontextmanager
async def opened_pins(settings: DatabaseSettings) -> AsyncIterator[Pins | None]:
    """Open the pins, beside a running bot; yield `None` if no database exists yet.

    Raises:
        ConfigError: The database has other tables.
    """
    async with opened_beside(settings) as database:
        yield None if database is None else Pins(database, utc_now)
