"""Long Markdown in several messages, the code fences whole in each (pure)."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

#: Ends the last part when `max_parts` did not suffice.
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


def split(
    text: str,
    limit: int,
    *,
    max_parts: int | None = None,
    length: Callable[[str], int] = len,
) -> list[str]:
    """Return `text` in parts of at most `limit`; none is blank, and a blank text has none.

    A cut goes between paragraphs, lines, sentences or words, the first of these that leaves the
    part at least half full; in code between lines; else anywhere but inside a character. A fence
    that is cut is closed in the one part and opened again, with its info string, in the next; one
    that the text leaves open is closed. But for these lines the parts hold the whole text, less
    the white space at cuts and at both ends; inside a fence a cut takes the line end only.

    Args:
        text: Markdown, already made harmless for its platform.
        limit: The most that a part may measure. Below 12 there is no room for fences, and one
            whose marker and indentation take more than a quarter of it counts as text.
        max_parts: The most parts; the last then ends with `CUT` and the rest is left off.
        length: Measures a text: the sum of its characters, each at least 1, ASCII ones exactly.

    Raises:
        ValueError: `limit` is below 1, or below 64 with `max_parts`.
    """
    if limit < (1 if max_parts is None else 64):
        raise ValueError(f"A limit of {limit} is too small: use at least 64.")
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
        prefix: What stands before it on each of its lines: indentation and quote signs.
        info: Empty when it is too long to be said again.
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

    def closed_by(self, match: re.Match[str]) -> bool:
        return (
            match["marker"].startswith(self.marker)
            and not match["info"].strip()
            and match["bullet"] is None
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """One part, where the next begins, and the fence that is open there."""

    text: str
    next: int
    fence: _Fence | None


@dataclass(frozen=True, slots=True)
class _Window:
    """What could go into one part: from `start`, inside `fence`, as far as `end` and `room`.

    Attributes:
        ends: Where its whole lines end, each with the fence that is open there.
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
        """Where the line begins that does not end in the window."""
        return self.ends[-1][0] + 1 if self.ends else self.start

    @property
    def outside(self) -> list[int]:
        """The ends of lines outside fences."""
        return [end for end, fence in self.ends if fence is None and end > self.start]


@dataclass(frozen=True, slots=True)
class _Splitter:
    text: str
    longest_fence: int
    length: Callable[[str], int]

    def part(self, start: int, fence: _Fence | None, limit: int) -> _Part:
        """Return the part that begins at `start`, inside `fence`."""
        head = fence.opening if fence else ""
        window = self._window(start, fence, limit - self.length(head))
        end, fence = self._choose(window)
        body = self.text[start:end]
        if fence is None:
            return _Part(head + body.rstrip(), _past(_SPACE_AT_A_CUT, self.text, end), None)
        if body.endswith("\n"):
            return _Part(head + body[:-1] + fence.closing, end, fence)
        following = end + self.text.startswith("\n", end)
        return _Part(head + body + fence.closing, following, fence)

    def _window(self, start: int, fence: _Fence | None, room: int) -> _Window:
        stop = self._reach(start, room)
        ends = []
        at, inner = start, fence
        while (end := self.text.find("\n", at, stop + 1)) >= 0:
            inner = self._after(inner, self.text[at:end])
            ends.append((end, inner))
            at = end + 1
        return _Window(start, stop, room, fence, ends, _left(inner, self.text[at:stop]))

    def _choose(self, window: _Window) -> tuple[int, _Fence | None]:
        """Return the best place to cut that fits, and the fence that is open there."""
        end, fence = window.start, window.fence
        for end in self._cuts(window):
            fence = self._fence_at(window, end)
            tail = self.length(fence.closing) if fence else 0
            if self.length(self.text[window.start : end]) + tail <= window.room:
                break
        return end, fence

    def _cuts(self, window: _Window) -> Iterator[int]:
        """Offer places to cut, best first."""
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
        yield from self._anywhere(window)

    def _words(self, window: _Window) -> list[int]:
        """Return the ends of the last sentence and the last word of the line that is too long.

        The start of inline code comes before a cut through it. None, when the line so far would
        open a fence.
        """
        start, stop = window.last_line, window.end + 1
        low = max(start, window.half) + 1
        sentences = [match.end() for match in _SENTENCE_END.finditer(self.text, low, stop)]
        words = [max(self.text.rfind(space, start + 1, stop) for space in " \t")]
        found = [end for end in [*sentences[-1:], *words] if start < end <= window.end]
        found = [*(self._before_span(start, end) for end in found), *found]
        return [end for end in found if self._after(None, self.text[start:end]) is None]

    def _before_span(self, start: int, end: int) -> int:
        """Return the start of the inline code that a cut would go through; else the cut."""
        inside = self.text.count("`", start, end) % 2 == 1
        return max(self.text.rfind("`", start, end), start + 1) if inside else end

    def _ends_of_code_lines(self, window: _Window) -> Iterator[int]:
        if window.last_fence is None:
            return
        stop = self._reach(window.start, window.room - self.length(window.last_fence.closing))
        previous = [window.fence, *(fence for _, fence in window.ends)]
        for (end, fence), before in zip(
            reversed(window.ends), reversed(previous[:-1]), strict=True
        ):
            if fence is None:
                return
            # Not right after the line that opens it: the fence would be empty.
            if before is not None and window.start < end <= stop:
                yield end

    def _anywhere(self, window: _Window) -> Iterator[int]:
        """Offer cuts inside a line; the last is the one to take if all else fails."""
        ends = [window.end]
        if window.last_fence:
            tail = self.length(window.last_fence.closing)
            ends.append(self._reach(window.start, window.room - tail))
        ends.append(self._reach(window.start, window.room - self.longest_fence - 1))
        for end in ends:
            yield self._between_characters(window.start, max(end, window.start + 1))

    def _between_characters(self, start: int, end: int) -> int:
        """Return the last place up to `end` that is inside no character and no entity."""
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
        """Return how far a text from `start` fits into `room`."""
        low, high = start, min(start + room, len(self.text))
        if self.length(self.text[start:high]) <= room:
            return high
        while low + 1 < high:
            middle = (low + high) // 2
            fits = self.length(self.text[start:middle]) <= room
            low, high = (middle, high) if fits else (low, middle)
        return low

    def _fence_at(self, window: _Window, end: int) -> _Fence | None:
        """Return the fence that is open at `end`, as a reader of this part alone sees it."""
        fence = window.fence
        for line in self.text[window.start : end].split("\n"):
            fence = self._after(fence, line)
        return fence

    def _after(self, fence: _Fence | None, line: str) -> _Fence | None:
        """Return the fence that is open after a line."""
        fence = _left(fence, line)
        match = _FENCE.match(line)
        if match is None or match.end("marker") > self.longest_fence:
            return fence
        if fence is not None:
            return None if fence.closed_by(match) else fence
        if match["marker"].startswith("`") and "`" in match["info"]:
            return None
        prefix = re.sub(r"[^\s>]", " ", match["prefix"])
        info = match["info"] if self.length(line) <= self.longest_fence else ""
        return _Fence(prefix, match["marker"], info)


def _left(fence: _Fence | None, line: str) -> _Fence | None:
    """Return the fence that a line is still in: one in a quotation ends with the quotation."""
    quoted = fence is not None and ">" in fence.prefix
    return None if quoted and line.strip() and not line.lstrip().startswith(">") else fence


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
