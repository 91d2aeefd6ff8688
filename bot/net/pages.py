"""Converts pages to Markdown in a separate process."""

import logging
from pathlib import Path

from bot.isolated import run_isolated
from bot.net.base import WebError

log = logging.getLogger(__name__)

#: Timeout, including the start of the process, which is most of the time due to imports.
READING_SECONDS = 20.0

_SCRIPT = Path(__file__).with_name("reading.py")


async def to_markdown(text: str, url: str, *, seconds: float = READING_SECONDS) -> str:
    """Return a page as Markdown, with its title; empty when it has no text.

    Args:
        text: The page.
        url: Its URL, for relative links.
        seconds: Timeout.

    Raises:
        WebError: The page cannot be parsed.
    """
    given = text.encode("utf-8", "replace")
    try:
        out = await run_isolated(_SCRIPT, url, given=given, seconds=seconds, megabytes=1024)
    except (TimeoutError, ChildProcessError) as error:
        log.info("A page of %d characters cannot be read: %s", len(text), str(error) or "timeout")
        raise WebError(
            "That page is made in a way that cannot be read. Use another page."
        ) from None
    return out.decode("utf-8", "replace")
