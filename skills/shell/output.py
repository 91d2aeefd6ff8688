"""Stores the beginning and the end of a command's output, in bounded memory (pure)."""

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The stored part of an output.

    Attributes:
        head: The beginning, or everything.
        tail: The end; empty when nothing is missing.
        missing: Bytes between the two.
    """

    head: str = ""
    tail: str = ""
    missing: int = 0


class OutputBuffer:
    """Receives output in pieces, and stores at most `limit` bytes of it.

    Attributes:
        total: Bytes that have been received.
    """

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._in_tail = 0
        self.total = 0

    def add(self, piece: bytes) -> None:
        """Receive a piece."""
        self.total += len(piece)
        room = self._half - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail.append(piece)
            self._in_tail += len(piece)
        while self._tail and self._in_tail - len(self._tail[0]) >= self._half:
            self._in_tail -= len(self._tail.popleft())

    @property
    def output(self) -> CommandOutput:
        """The output stored so far."""
        rest = b"".join(self._tail)
        tail = rest[-self._half :] if self._half else b""
        missing = self.total - len(self._head) - len(tail)
        if not missing:
            return CommandOutput(_text(bytes(self._head) + tail))
        return CommandOutput(_text(bytes(self._head)), _text(tail), missing)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
