"""Writes the bodies of requests, and reads the server-sent events that stream answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import cached_property
from typing import Any

from bot.values import Json

#: Longest wait for the end of a stream after its last event.
END_SECONDS = 0.1


class WrittenOnce(list[Json]):
    """A part of many bodies, which is written as JSON once."""

    @cached_property
    def json(self) -> str:
        """The part as it is sent."""
        return _json(list(self))


def written(body: Json) -> bytes:
    """Return the body of a request as the SDKs write it.

    Raises:
        ValueError: The body holds a number or a character that JSON or UTF-8 has not.
    """
    parts = (
        f"{_json(name)}:{part.json if isinstance(part, WrittenOnce) else _json(part)}"
        for name, part in body.items()
    )
    return f"{{{','.join(parts)}}}".encode()


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class StreamedError(Exception):
    """An error that a provider sent in a stream, after its answer began.

    Attributes:
        type: The kind of the error, as the provider names it.
        code: The code of OpenAI, and of servers like it.
        error_code: The code of Anthropic.
    """

    def __init__(self, event: Any) -> None:
        error = event.get("error") if isinstance(event, dict) else None
        error = error if isinstance(error, dict) else {"message": str(error or event)}
        details = error.get("details")
        self.message = str(error.get("message") or error)
        self.type = str(error.get("type") or "")
        self.code = str(error.get("code") or "")
        self.error_code = str(details.get("error_code") or "") if isinstance(details, dict) else ""
        super().__init__(self.message)


async def events_in(pieces: AsyncIterator[bytes]) -> AsyncIterator[Json]:
    """Yield the documents of server-sent events, up to the event `[DONE]`.

    An event without its empty line at the end is incomplete, and left out.

    Raises:
        StreamedError: The provider sent an error.
        ValueError: An event holds no JSON.
    """
    unread: list[bytes] = []
    name, data = b"", list[bytes]()
    async for piece in pieces:
        unread.append(piece)
        if b"\n" not in piece:
            continue
        *lines, rest = b"".join(unread).split(b"\n")
        unread = [rest]
        for line in lines:
            field_name, _, value = line.removesuffix(b"\r").partition(b":")
            if field_name == b"data":
                data.append(value.removeprefix(b" "))
            elif field_name == b"event":
                name = value.strip()
            elif line.strip():
                continue
            elif data:
                text = b"\n".join(data)
                if text.startswith(b"[DONE]"):
                    # The end of the stream, if it comes at once, lets its connection be used again.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(END_SECONDS):
                            async for _ in pieces:
                                pass
                    return
                yield _checked(name, text)
                name, data = b"", []
            else:
                name = b""


def _checked(name: bytes, text: bytes) -> Json:
    try:
        event: Json = json.loads(text)
    except ValueError:
        if name == b"error":
            raise StreamedError(text.decode(errors="replace")) from None
        raise
    if name == b"error" or (isinstance(event, dict) and event.get("error")):
        raise StreamedError(event)
    return event
