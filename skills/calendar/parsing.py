"""Parses calendar objects in a separate process, which is killed after a timeout."""

import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from bot.errors import ToolError
from skills.calendar.times import Window

log = logging.getLogger(__name__)

#: Timeout, including the start of the process, about 0.3 s.
READING_SECONDS = 20.0

_SCRIPT = Path(__file__).with_name("reading.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a calendar; its texts are untrusted.

    Attributes:
        start: ISO 8601: a time in the requested zone, or a day.
        end: The same; for an all-day event, its last day.
        status: Such as `TENTATIVE` or `CANCELLED`; may be empty.
    """

    start: str
    end: str
    all_day: bool
    title: str
    location: str
    notes: str
    status: str


@dataclass(frozen=True, slots=True)
class Found:
    """The events of one calendar in a window, earliest first.

    Attributes:
        more: The window holds more events than were requested.
        unread: Number of objects that could not be parsed.
    """

    events: tuple[Event, ...] = ()
    more: bool = False
    unread: int = 0


async def events_of(
    objects: Sequence[str],
    window: Window,
    zone: ZoneInfo,
    *,
    most: int,
    seconds: float = READING_SECONDS,
) -> Found:
    """Return the events of these objects that occur in a window, recurrences expanded.

    Raises:
        ToolError: Parsing failed or took too long.
    """
    if not objects:
        return Found()
    asked = {
        "objects": list(objects),
        "start": window.start.isoformat(),
        "end": window.end.isoformat(),
        "zone": zone.key,
        "most": most,
    }
    out = await _answer(json.dumps(asked).encode(), seconds)
    try:
        told = json.loads(out)
    except ValueError:
        raise ToolError(
            "What stands in the calendar takes too long to read. Ask for a shorter time."
        ) from None
    events = tuple(Event(**event) for event in told["events"])
    return Found(events, told["more"], told["unread"])


async def _answer(asked: bytes, seconds: float) -> bytes:
    # Isolated: neither the current folder nor the environment affects imports.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-EP", "-W", "ignore", str(_SCRIPT)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(seconds):
            out, _ = await process.communicate(asked)
    except TimeoutError:
        log.warning("Reading %d bytes of a calendar took too long", len(asked))
        return b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out
