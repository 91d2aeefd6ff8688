"""Revokes the access to MCP servers of a user whose data is deleted."""

from bot.net.settings import FetchSettings
from bot.personal import Leave
from bot.values import Clock, Sections
from db.database import Database
from skills.mcp.settings import McpSettings
from skills.mcp.sign_ins import SignIns


def leaving(config: Sections, database: Database, now: Clock) -> Leave:
    """Return a function that revokes the access of a user at all servers."""
    settings = config.section(McpSettings)
    return SignIns(settings, database, now, refused=config.live(FetchSettings)).revoke_all
