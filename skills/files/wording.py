"""Formats the results of the file tools, and reads and edits texts (pure)."""

import html

from bot.agent.sanitizer import escape_for_model, one_line
from bot.conversations.file_kinds import Claim, image_type, text_in
from bot.disk import spoken
from bot.errors import ToolError
from bot.files.opener import shown
from bot.files.walk import EntryKind
from skills.files.workspace import WorkspaceWalk

#: Largest text that `escape_for_model` returns uncut, with room for line numbers.
PART_CHARACTERS = 26_000
PART_MARKUP = 6_000
LINE_CHARACTERS = 2_000

MOST_LISTED = 500

_MORE = "There is more: ask for less at once."


def shown_text(
    path: str, content: bytes, *, offset: int, limit: int, column: int, numbered: bool
) -> str:
    """Return lines of a file, under a header with their range and the next offset.

    Raises:
        ToolError: The offset is beyond the file.
    """
    text = _text(path, content)
    if not text:
        return with_path("{} is empty.", path)
    # The lines as an editor counts them, without characters that break lines elsewhere.
    odd = str.maketrans(dict.fromkeys("\r\x0b\x0c\x85\u2028\u2029", " "))
    lines = text.replace("\r\n", "\n").removesuffix("\n").translate(odd).split("\n")
    if offset > len(lines):
        raise ToolError(f"{shown(path)} has {len(lines):,} lines: take a smaller offset.")
    most = PART_CHARACTERS if limit == 1 else LINE_CHARACTERS
    rows: list[str] = []
    size = markup = cut = 0
    for number, whole in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        line = whole[column - 1 :][:most]
        while _markup(line) > PART_MARKUP:
            line = line[: len(line) // 2]
        size += len(line) + 1
        markup += _markup(line)
        if rows and (size > PART_CHARACTERS or markup > PART_MARKUP):
            break
        left = len(whole) - (column - 1) - len(line)
        if left > 0:
            cut = cut or number
            line += f" [… {left:,} more characters, from column {column + len(line)}]"
        rows.append(f"{number}\t{line}" if numbered else line)
    last = offset + len(rows) - 1
    head = f"{{}}: lines {offset:,} to {last:,} of {len(lines):,}."
    if last < len(lines):
        head += f" Go on with offset={last + 1}."
    if cut:
        head += f" Line {cut} goes on: offset={cut}, limit=1, column=…"
    return f"{with_path(head, path)}\n\n{escape_for_model(chr(10).join(rows))}"


def to_write(text: str) -> bytes:
    """Return a text encoded for a file.

    Raises:
        ToolError: The text holds NUL characters.
    """
    if "\0" in text:
        raise ToolError("The text holds NUL characters, which no text file does: leave them out.")
    # JSON can hold unpaired surrogates.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def edited(path: str, content: bytes, old: str, new: str, *, everywhere: bool) -> tuple[bytes, int]:
    """Return a file's content with a text replaced, and the number of replacements.

    Raises:
        ToolError: The text is missing, is repeated without `everywhere`, or would not change.
    """
    _text(path, content)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ToolError(
            f"{shown(path)} is no UTF-8 text, and only such are edited: write it anew with "
            "file_write."
        ) from None
    before, after = to_write(old).decode(), to_write(new).decode()
    if "\r\n" in text:
        before, after = (
            part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (before, after)
        )
    if not before or before == after:
        raise ToolError("Nothing would change: give the text to replace, and another one as `new`.")
    count = text.count(before)
    if not count and html.unescape(before) in text:
        raise ToolError(
            f"The text is in {shown(path)} with the characters < > & themselves: write these in "
            "`old` and `new`, not &lt; &gt; &amp;. Nothing was changed."
        )
    if not count:
        raise ToolError(
            f"The text is not in {shown(path)}: 0 matches. Read the file again, and copy the text "
            "to the letter, with its blanks and without line numbers. Nothing was changed."
        )
    if count > 1 and not everywhere:
        raise ToolError(
            f"The text is in {shown(path)} {count:,} times: give more of what stands around the "
            "one you mean, or set replace_all. Nothing was changed."
        )
    return text.replace(before, after).encode(), count


def listed(looking: WorkspaceWalk, path: str) -> str:
    """Return the content of a folder as an indented tree."""
    rows: list[str] = []
    for entry in looking.entries:
        if len(rows) >= MOST_LISTED:
            rows.append(f"{_MORE} Name a folder, or use a smaller depth.")
            break
        row = "  " * (len(entry.parts) - 1) + one_line(entry.parts[-1], 250)
        match entry.kind:
            case EntryKind.FOLDER:
                row += "/ (not shown)" if entry.skipped else "/"
            case EntryKind.FILE:
                row += f" ({spoken(entry.size)})"
            case EntryKind.LINK:
                row += " (a link, not followed)"
            case EntryKind.OTHER:
                row += " (a device, a pipe or a socket)"
        rows.append(row)
    else:
        if looking.cut:
            rows.append("Not everything could be looked at.")
    if not rows:
        return with_path("{} is empty.", path)
    return _escaped(rows)


def shown_rows(rows: list[str], *, more: bool, nothing: str) -> str:
    """Return the search results, line by line."""
    if not rows:
        return f"{nothing} Not everything could be looked at in time." if more else nothing
    return _escaped([*rows, *([f"[{_MORE}]"] if more else [])])


def with_path(sentence: str, path: str) -> str:
    """Return a sentence with a path in place of `{}`."""
    return sentence.format(escape_for_model(shown(path)))


def _text(path: str, content: bytes) -> str:
    """Return the text of a text file."""
    if kind := image_type(content):
        raise ToolError(f"{shown(path)} is an image ({kind}, {spoken(len(content))}), and no text.")
    text = text_in(content, Claim.TEXT)
    if text is None:
        raise ToolError(
            f"{shown(path)} is no text: it has {spoken(len(content))} of other data. Use a "
            "program for this kind of file, with the shell if you have it."
        )
    return text


def _markup(line: str) -> int:
    return sum(line.count(character) for character in "&<>")


def _escaped(rows: list[str]) -> str:
    return escape_for_model("\n".join(" ".join(row.split("\n")) for row in rows))
