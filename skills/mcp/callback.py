"""Serves the page to which a browser returns after a sign-in."""

import asyncio
import logging
from html import escape

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from bot.errors import ConfigError
from bot.platforms.messaging.intake import Deduplicator
from bot.web_server import WebLimits, listen, serve
from skills.mcp.settings import McpSettings
from skills.mcp.sign_ins import CALLBACK_PATH, MOST_PASTED

log = logging.getLogger(__name__)

LIMITS = WebLimits(connections=20, stop_seconds=1.0)
#: Pause before another attempt at a port that another process has.
RETRY_SECONDS = 15.0
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Almost done</title>
<h1>Almost done</h1>
<p>Copy this line, and send it to the bot with the command <code>connect</code> that it told you.
Send nothing if you did not begin this sign-in yourself.</p>
<pre>{query}</pre></html>"""


def app() -> Starlette:
    """Return the web application.

    It stores nothing and ends no sign-in. Only the account that began a sign-in can end it, in the
    chat: whoever follows the link of another user would otherwise give that user access.
    """

    async def page(request: Request) -> Response:
        query = request.url.query
        if "state=" not in query or len(query) > MOST_PASTED:
            return HTMLResponse("This page belongs to a sign-in.", 400, _HEADERS)
        return HTMLResponse(_PAGE.format(query=escape(query)), headers=_HEADERS)

    return Starlette(routes=[Route(CALLBACK_PATH, page)])


async def serve_page(settings: McpSettings) -> None:
    """Serve the page until cancelled; if another process has the port, take it over from it."""
    assert settings.port is not None, "There is a port."
    warned = False
    while True:
        try:
            listener = listen(settings.host, settings.port, section="mcp")
        except ConfigError as error:
            if not warned:
                log.warning("The page after a sign-in is not served by this process: %s", error)
            warned = True
            await asyncio.sleep(RETRY_SECONDS)
            continue
        async with serve(app(), listener, LIMITS, Deduplicator()) as address:
            log.info("The page after a sign-in at an MCP server: %s%s", address, CALLBACK_PATH)
            await asyncio.Event().wait()
