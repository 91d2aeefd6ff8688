"""Converts pages to Markdown in a separate process, which is killed after a timeout."""

import asyncio
import logging
import sys
from pathlib import Path

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
    # Isolated: neither the current folder nor the environment affects imports.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-EP", "-W", "ignore", str(_SCRIPT), url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(seconds):
            out, _ = await process.communicate(text.encode("utf-8", "replace"))
    except TimeoutError:
        log.info("Reading a page of %d characters took too long", len(text))
        out = b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise WebError("That page is made in a way that cannot be read. Use another page.")
    return out.decode("utf-8", "replace")
