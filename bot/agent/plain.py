"""Removes invisible content from text: controls, escape sequences, hidden characters (pure)."""

import re
import unicodedata

#: Most characters of one text; a longer text is cut with a visible mark.
LIMIT = 32_000

CUT_MARK = "\n[… cut here]"

#: Languages that stack marks (pointed Hebrew, Tibetan) need up to four on one letter.
MARKS_PER_LETTER = 4

_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")

# The body of a string sequence stops at any control character, so that an unclosed one cannot
# swallow what follows, and so that no character is scanned twice.
_CONTROLS = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]*[0-~]"
    "|[\x01-\x08\x0e-\x1f\x7f-\x9f]"
)

# England, Scotland and Wales: the only emoji made of tag characters that vendors draw.
_TAG_FLAGS = "|".join(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in name) + "\U000e007f"
    for name in ("gbeng", "gbsct", "gbwls")
)
_INVISIBLE = re.compile(
    f"({_TAG_FLAGS})|["
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]+"
)

_JOINERS = "\u200c\u200d"
_EMOJI = (
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001faff]"
)
# Arabic, Persian and the Indic scripts cannot be written without joiners.
_JOINING_SCRIPT = "[\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u180a\u1810-\u18af]"
_KEPT_JOINER = (
    f"(?:(?<={_EMOJI})|(?<={_EMOJI}\ufe0f))\u200d(?={_EMOJI})"
    f"|(?<={_JOINING_SCRIPT})[{_JOINERS}](?={_JOINING_SCRIPT})(?=\\w)"
)
_ANY_JOINER = re.compile(f"({_KEPT_JOINER})|[{_JOINERS}]")

_SELECTORS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_ANY_SELECTOR = re.compile(
    f"((?<=[^\\s\x00-\x7f{_SELECTORS}])[{_SELECTORS}]|(?<=[0-9#*])\ufe0f)|[{_SELECTORS}]+"
)

_MARKS = re.compile(rf"[^\w\s\x00-\x7f]{{{MARKS_PER_LETTER + 1},}}")

#: A quoted line, in the notation of all platforms.
_QUOTING = re.compile(r"^[ \t]*(?:>|&gt;)", re.MULTILINE)


def plain(text: str, *, limit: int | None = LIMIT) -> str:
    """Return `text` without invisible content, cut at `limit` characters with a visible mark.

    NUL and lone surrogates become U+FFFD. Removed are escape sequences, control characters except
    newline and tab, bidi controls, zero-width and tag characters, variation selectors without an
    effect, and all but four marks on a letter. Joiners stay in emoji and in scripts that need them.
    The function is idempotent. Above `LARGE` characters (`bot.agent.sanitizer`), call it in a
    thread.
    """
    if limit is None:
        return clean(text)
    head = text[: 4 * limit]
    return cut(clean(head), limit, more=len(head) < len(text))


def clean(text: str) -> str:
    """Return `text` without invisible content, as `plain` does, but uncut."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = _LINE_ENDS.sub("\n", text.replace("\0", "\ufffd"))
    text = _CONTROLS.sub("", text)
    if text.isascii():
        return text
    # The order matters: each step sees the neighbours that the earlier steps left, and no step
    # creates a match for an earlier step. Therefore a second pass changes nothing.
    text = _INVISIBLE.sub(r"\1", text)
    text = _MARKS.sub(_without_piles, text)
    text = _ANY_JOINER.sub(r"\1", text)
    return _ANY_SELECTOR.sub(r"\1", text)


def cut(text: str, limit: int, *, more: bool = False) -> str:
    """Return clean text of at most `limit` characters, with a visible mark if text is missing.

    Args:
        text: The result of `clean`.
        limit: At least 1.
        more: Whether some text was left off already.
    """
    if len(text) <= limit and not more:
        return text
    mark = CUT_MARK if limit >= 4 * len(CUT_MARK) else "…"
    # Clean again, since the cut may have split an emoji.
    return clean(text[: limit - len(mark)]).rstrip() + mark


def _without_piles(match: re.Match[str]) -> str:
    kept = []
    marks = 0
    for character in match.group():
        if unicodedata.category(character) in {"Mn", "Me"}:
            marks += 1
            if marks > MARKS_PER_LETTER:
                continue
        elif character not in _JOINERS:
            marks = 0
        kept.append(character)
    return "".join(kept)


def quotes(text: str) -> bool:
    """Return True if a line of a message is a quotation."""
    return _QUOTING.search(text) is not None


def unquoted(text: str) -> str:
    """Return a message without its quoted lines."""
    own = []
    for line in text.splitlines():
        if line.lstrip().startswith((">>>", "&gt;&gt;&gt;")):
            break  # on Discord this quote extends to the end of the message
        if not _QUOTING.match(line):
            own.append(line)
    return "\n".join(own)
