"""Reports for `check` the MCP servers and their tools."""

from collections.abc import Iterator, Mapping

from bot.checks import some
from bot.run_texts import counted
from bot.values import Sections
from skills.mcp.files import read_servers
from skills.mcp.programs import missing
from skills.mcp.settings import McpSettings

TITLE = "MCP servers"


def lines(config: Sections, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield each server, without connecting to it."""
    settings = config.section(McpSettings)
    if not settings.servers:
        yield "none: `mcp.servers` names them"
        return
    for name, each in settings.servers.items():
        if not each.enabled:
            yield f"{name}: off, `enabled` is false"
        elif amiss := missing(each, environ):
            yield f"{name}: NOT USED: {amiss}"
        else:
            tools = "all its tools" if each.tools is None else some(each.tools, "tool", none="none")
            tools += ", after an approval" * each.review_first
            if name in settings.written:
                tools += "; an admin's approval starts it"
            runs = some(each.runs, "tool", none="none")
            yield f"{name}: {each.shown}; {tools}, of which subagents may use {runs}"
    for file in settings.files:
        found, remarks, _ = read_servers(file, environ)
        yield f"{file}: {counted(len(found), 'server')}"
        yield from remarks
    yield "whether they answer: `python -m bot doctor`; what waits: `python -m bot mcp list`"
