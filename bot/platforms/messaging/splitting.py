"""Splits a text into messages: between paragraphs, lines, sentences or words (pure)."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce

#: The end of the last part if `max_parts` does not suffice.
CUT = "\n[… cut here]"

_FENCE = re.compile(
    r"(?P<prefix>[ \t]*(?:(?P<bullet>(?:[-*+]|\d{1,9}[.)])[ \t]+)|>[ \t]*)*)"
    r"(?P<marker>`{3,}|~{3,})(?P<info>.*)",
    re.DOTALL,
)
_SENTENCE_END = re.compile(r"[.!?…][\"')\]*_]*(?=\s)|[。！？]")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")
_SPACE_AT_A_CUT = re.compile(r"(?:[ \t]*\n)+|[ \t]+")
_ENTITY = re.compile(r"&(?:amp|lt|gt);")
_PARTS_OF_A_CHARACTER = re.compile(
    "[\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
)

#: Most messages in a row; more would annoy users, so a file replaces them.
MOST_PARTS = 5


@dataclass(frozen=True, slots=True)
class MessageParts:
    """A text of any length, split into messages.

    Attributes:
        texts: The messages; at least one.
        whole: The content of the file that is sent if the messages are too many.
        name: The name of the file.
    """

    texts: tuple[str, ...]
    whole: str
    name: str

    @property
    def long(self) -> bool:
        """True if a file replaces all messages but the first."""
        return len(self.texts) > MOST_PARTS


def split(
    text: str,
    limit: int,
    *,
    max_parts: int | None = None,
    length: Callable[[str], int] = len,
) -> list[str]:
    """Return `text` in parts of at most `limit`. No part is blank; a blank text has no parts.

    A cut goes between paragraphs, lines, sentences or words: the first of these that leaves the
    part at least half full. In code a cut goes between lines. Otherwise a cut goes anywhere but
    inside a character. A fence that is cut is closed in its part and opened again in the next part,
    with its info string. A fence that the text leaves open is closed. Apart from these lines the
    parts contain the whole text, without the white space at cuts and at both ends. Inside a fence a
    cut removes the line end only.

    Args:
        text: Markdown, already escaped for its platform.
        limit: The most that a part may measure. Fences do not fit into a limit below 12. A fence
            whose marker and indentation exceed a quarter of the limit counts as text.
        max_parts: The most parts. The last part then ends with `CUT`; the rest is dropped.
        length: Measures a text as the sum of its characters: exactly 1 for an ASCII character, at
            least 1 for any other.

    Raises:
        ValueError: `limit` is below 1, or below 64 with `max_parts`.
    """
    least = 1 if max_parts is None else 64
    if limit < least:
        raise ValueError(f"A limit of {limit} is too small: use at least {least}.")
    splitter = _Splitter(text, limit // 4, length)
    parts: list[str] = []
    at, fence = _past(_BLANK_LINES, text, 0), None
    while at < len(text):
        part = splitter.part(at, fence, limit)
        if len(parts) + 1 == max_parts and text[part.next :].strip():
            return [*parts, splitter.part(at, fence, limit - length(CUT)).text + CUT]
        if part.text.strip():
            parts.append(part.text)
        at, fence = part.next, part.fence
    return parts


@dataclass(frozen=True, slots=True)
class _Fence:
    """An open code fence.

    Attributes:
        prefix: The indentation and quote signs before the fence on each of its lines.
        info: The info string; empty if it is too long to be repeated.
    """

    prefix: str
    marker: str
    info: str

    @property
    def opening(self) -> str:
        return f"{self.prefix}{self.marker}{self.info}\n"

    @property
    def closing(self) -> str:
        return f"\n{self.prefix}{self.marker}"


@dataclass(frozen=True, slots=True)
class _Part:
    """One part, the start of the next part, and the fence that is open at that position."""

    text: str
    next: int
    fence: _Fence | None


@dataclass(frozen=True, slots=True)
class _PartWindow:
    """The candidate text of one part: from `start`, inside `fence`, to `end`.

    Attributes:
        room: The most that the text with its closing fence may measure.
        ends: The ends of the complete lines, each with the fence that is open at that position.
        last_fence: The fence that is open in `last_line`.
    """

    start: int
    end: int
    room: int
    fence: _Fence | None
    ends: list[tuple[int, _Fence | None]]
    last_fence: _Fence | None

    @property
    def half(self) -> int:
        return (self.start + self.end) // 2

    @property
    def last_line(self) -> int:
        """The start of the line that does not end in the window."""
        return self.ends[-1][0] + 1 if self.ends else self.start

    @property
    def outside(self) -> list[int]:
        """The ends of lines outside fences."""
        return [end for end, fence in self.ends if fence is None and end > self.start]


@dataclass(frozen=True, slots=True)
class _Splitter:
    """Finds the parts of a text.

    Attributes:
        longest_fence: The most that a line with a fence may measure to be repeated in each part.
    """

    text: str
    longest_fence: int
    length: Callable[[str], int]

    def part(self, start: int, fence: _Fence | None, limit: int) -> _Part:
        """Return the part that begins at `start`, inside `fence`."""
        head = fence.opening if fence else ""
        room = limit - self.length(head)
        stop = self._reach(start, room)
        ends = []
        at, inner = start, fence
        while (end := self.text.find("\n", at, stop + 1)) >= 0:
            inner = self._after(inner, self.text[at:end])
            ends.append((end, inner))
            at = end + 1
        last = _left(inner, self.text[at:stop])
        for end in self._cuts(_PartWindow(start, stop, room, fence, ends, last)):
            body = self.text[start:end]
            # The fence that is open at the cut in the text of this part alone.
            open_fence = reduce(self._after, body.split("\n"), fence)
            tail = open_fence.closing if open_fence else ""
            if self.length(body) + self.length(tail) <= room:
                break
        if open_fence is None:
            return _Part(head + body.rstrip(), _past(_SPACE_AT_A_CUT, self.text, end), None)
        following = end + (not body.endswith("\n") and self.text.startswith("\n", end))
        return _Part(head + body.removesuffix("\n") + tail, following, open_fence)

    def _cuts(self, window: _PartWindow) -> Iterator[int]:
        """Yield positions of cuts, best first."""
        if window.end == len(self.text):
            yield window.end
        outside = window.outside
        good = [end for end in outside if end > window.half]
        yield from [end for end in good if self.text.startswith("\n", end + 1)][-1:]
        yield from good[-1:]
        words = self._words(window) if window.last_fence is None else []
        yield from [end for end in words if end > window.half]
        yield from self._ends_of_code_lines(window)
        yield from sorted([*outside[-1:], *words], reverse=True)
        # Cuts inside a line; the last cut is the fallback if no cut fits.
        within = [window.end]
        if window.last_fence:
            tail = self.length(window.last_fence.closing)
            within.append(self._reach(window.start, window.room - tail))
        within.append(self._reach(window.start, window.room - self.longest_fence - 1))
        for end in within:
            yield self._between_characters(window.start, max(end, window.start + 1))

    def _words(self, window: _PartWindow) -> list[int]:
        """Return the ends of the last sentence and the last word of the line that is too long.

        The start of inline code precedes a cut through it. The list omits cuts after which the line
        so far would open a fence.
        """
        start, stop = window.last_line, window.end + 1
        low = max(start, window.half) + 1
        sentences = [match.end() for match in _SENTENCE_END.finditer(self.text, low, stop)]
        words = [max(self.text.rfind(space, start + 1, stop) for space in " \t")]
        found = [end for end in [*sentences[-1:], *words] if start < end <= window.end]
        uncut = [
            max(self.text.rfind("`", start, end), start + 1)
            if self.text.count("`", start, end) % 2
            else end
            for end in found
        ]
        return [end for end in uncut + found if self._after(None, self.text[start:end]) is None]

    def _ends_of_code_lines(self, window: _PartWindow) -> Iterator[int]:
        if window.last_fence is None:
            return
        stop = self._reach(window.start, window.room - self.length(window.last_fence.closing))
        previous = [window.fence, *(fence for _, fence in window.ends)]
        for (end, fence), before in zip(
            reversed(window.ends), reversed(previous[:-1]), strict=True
        ):
            if fence is None:
                return
            # A cut right after the opening line would leave an empty fence.
            if before is not None and window.start < end <= stop:
                yield end

    def _between_characters(self, start: int, end: int) -> int:
        """Return the last position up to `end` outside of characters and entities."""
        entity = self.text.rfind("&", max(end - 4, start + 1), end)
        match = _ENTITY.match(self.text, entity) if entity >= 0 else None
        if match and match.end() > end:
            return entity
        for at in range(end, max(start, end - 32), -1):
            around = self.text[at - 1 : at + 1]
            if len(around) < 2 or not (
                around[0] == "\u200d"
                or _PARTS_OF_A_CHARACTER.match(around[1])
                or unicodedata.combining(around[1])
            ):
                return at
        return end

    def _reach(self, start: int, room: int) -> int:
        """Return the end of the longest text from `start` that fits into `room`."""
        low, high = start, min(start + room, len(self.text))
        if self.length(self.text[start:high]) <= room:
            return high
        while low + 1 < high:
            middle = (low + high) // 2
            fits = self.length(self.text[start:middle]) <= room
            low, high = (middle, high) if fits else (low, middle)
        return low

    def _after(self, fence: _Fence | None, line: str) -> _Fence | None:
        """Return the fence that is open after a line."""
        fence = _left(fence, line)
        match = _FENCE.match(line)
        if match is None or match.end("marker") > self.longest_fence:
            return fence
        if fence is not None:
            closes = match["marker"].startswith(fence.marker) and match["bullet"] is None
            return None if closes and not match["info"].strip() else fence
        if match["marker"].startswith("`") and "`" in match["info"]:
            return None
        prefix = re.sub(r"[^\s>]", " ", match["prefix"])
        info = match["info"] if self.length(line) <= self.longest_fence else ""
        return _Fence(prefix, match["marker"], info)


def _left(fence: _Fence | None, line: str) -> _Fence | None:
    """Return the fence around a line; a fence in a quotation ends with the quotation."""
    quoted = fence is not None and ">" in fence.prefix
    return None if quoted and line.strip() and not line.lstrip().startswith(">") else fence


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
