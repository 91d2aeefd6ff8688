"""Pages as Markdown: read in a process of their own, which is killed when it takes too long."""

import asyncio
import logging
import sys
from pathlib import Path

from bot.net.base import WebError

log = logging.getLogger(__name__)

#: The beginning of the process included, of which most is spent on imports.
READING_SECONDS = 20.0

_SCRIPT = Path(__file__).with_name("reading.py")


async def to_markdown(text: str, url: str, *, seconds: float = READING_SECONDS) -> str:
    """Return a page as Markdown, with its title; empty when it says nothing.

    Args:
        text: The page.
        url: Where it is, for the links in it.
        seconds: The most that it may take.

    Raises:
        WebError: It cannot be read.
    """
    # Neither the folder that we are in nor the environment has a say in what is imported.
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
