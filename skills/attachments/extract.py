"""Extracts the text of a document; `bot.isolated` runs it, since documents may be hostile.

The content arrives on standard input, the media type as the argument; the text leaves as JSON on
standard output: {"text": …} or {"error": …}. With `COUNT_PAGES` instead of a type it is the number
of pages of a PDF: {"pages": …}. Only the standard library and pypdf are imported, and
entries of archives that declare more than `MOST_BYTES` are refused.
"""

import io
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from typing import IO, Literal
from xml.etree import ElementTree as ET

import pypdf
from pypdf.errors import PyPdfError

#: Limits of a document: declared size of an archive's entry, characters of the text, and entries.
MOST_BYTES, MOST_CHARACTERS, MOST_ENTRIES = 50_000_000, 2_000_000, 10_000
MOST_PAGES, MOST_ROWS, MOST_CELLS = 600, 20_000, 200

PDF = "application/pdf"
COUNT_PAGES = "count-pages"
_OFFICE = "application/vnd.openxmlformats-officedocument."
WORD = f"{_OFFICE}wordprocessingml.document"
EXCEL = f"{_OFFICE}spreadsheetml.sheet"
POWERPOINT = f"{_OFFICE}presentationml.presentation"
ARCHIVE = "application/zip"


class UnreadableError(Exception):
    """The document cannot be read; the text gives the reason for users."""


def text_of(content: bytes, media_type: str, part: str = "") -> str:
    """Return the text of a document.

    Args:
        content: The document.
        media_type: The kind of document.
        part: The entry of an archive that is wanted; empty for the list of its entries.

    Raises:
        UnreadableError: It is broken, encrypted or too large.
    """
    readers = {PDF: _pdf, WORD: _word, EXCEL: _excel, POWERPOINT: _powerpoint}
    try:
        if media_type == ARCHIVE:
            return _archive(content, part)
        pieces = readers[media_type](content)
        text, room = [], MOST_CHARACTERS
        for piece in pieces:
            text.append(piece[:room])
            room -= len(piece)
            if room <= 0:
                text.append("\n[… the rest is left out: the document is too long]")
                break
        return "".join(text).strip()
    except (zipfile.BadZipFile, KeyError, ET.ParseError, ValueError, EOFError) as error:
        raise UnreadableError("It is broken.") from error
    except RecursionError as error:
        raise UnreadableError("It is nested too deeply.") from error
    except NotImplementedError as error:
        raise UnreadableError(
            "It is compressed or encrypted in a way that I cannot read."
        ) from error
    except RuntimeError as error:
        raise UnreadableError("It is encrypted.") from error


def _pdf(content: bytes) -> Iterator[str]:
    try:
        reader = pypdf.PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("It is protected by a password.")
        for number, page in enumerate(reader.pages, 1):
            if number > MOST_PAGES:
                yield f"\n[… the rest is left out: only {MOST_PAGES} pages are read]"
                return
            yield f"[page {number}]\n{page.extract_text().strip()}\n\n"
    except PyPdfError as error:
        raise UnreadableError("It is broken, or larger inside than I read.") from error


def pages_of(content: bytes) -> int:
    """Return the number of pages of a PDF.

    Raises:
        UnreadableError: It is broken or encrypted.
    """
    try:
        reader = pypdf.PdfReader(io.BytesIO(content))
        # Even a PDF whose password is empty cannot be shown: models refuse encrypted ones.
        if reader.is_encrypted:
            raise UnreadableError("It is protected by a password.")
        return len(reader.pages)
    except (PyPdfError, ValueError, KeyError, RecursionError) as error:
        raise UnreadableError("It is broken.") from error


def _opened(content: bytes) -> zipfile.ZipFile:
    archive = zipfile.ZipFile(io.BytesIO(content))
    if len(archive.infolist()) > MOST_ENTRIES:
        raise UnreadableError(f"It has more than {MOST_ENTRIES:,} entries.")
    return archive


def _entry(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    # An entry never yields more than it declares.
    if archive.getinfo(name).file_size > MOST_BYTES:
        raise UnreadableError(f"Its part {name[:100]} is too large.")
    return archive.open(name)


def _elements(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[str, ET.Element]]:
    """Yield the name, without namespace, and the element of each element of a part at its end."""
    with _entry(archive, name) as entry:
        yield from _events(entry, ("end",))


def _events(
    entry: IO[bytes], kinds: tuple[Literal["start", "end"], ...]
) -> Iterator[tuple[str, ET.Element]]:
    """Yield elements by name: at their end `name`, at their start, if wanted, `<name`."""
    # Expat loads nothing from elsewhere and stops bombs of entities; the process is limited.
    for event, element in ET.iterparse(entry, events=kinds):  # noqa: S314
        tag = element.tag.rpartition("}")[2]
        yield f"<{tag}" if event == "start" else tag, element


def _word(content: bytes) -> Iterator[str]:
    archive = _opened(content)
    line: list[str] = []
    tables = 0
    with _entry(archive, "word/document.xml") as entry:
        for tag, element in _events(entry, ("start", "end")):
            match tag:
                case "<tbl":
                    tables += 1
                case "tbl":
                    tables -= 1
                case "t":
                    line.append(element.text or "")
                case "tab" | "tc":
                    line.append("\t")
                case "p" if tables:
                    line.append(" ")
                case "br" | "cr":
                    line.append("\n")
                case "p" | "tr":
                    text = "".join(line)
                    yield (
                        "\t".join(" ".join(cell.split()) for cell in text.split("\t")).rstrip()
                        if tag == "tr"
                        else text
                    ) + "\n"
                    line = []
                    element.clear()
    yield "".join(line)


def _excel(content: bytes) -> Iterator[str]:
    archive = _opened(content)
    names = set(archive.namelist())
    shared: list[str] = []
    if "xl/sharedStrings.xml" in names:
        parts: list[str] = []
        for tag, element in _elements(archive, "xl/sharedStrings.xml"):
            if tag == "t":
                parts.append(element.text or "")
            elif tag == "si":
                shared.append("".join(parts))
                parts = []
                element.clear()
    titles = [
        element.get("name", "")
        for tag, element in _elements(archive, "xl/workbook.xml")
        if tag == "sheet"
    ]
    sheets = sorted(
        (name for name in names if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", name)),
        key=lambda name: int(re.sub(r"\D", "", name)),
    )
    for index, name in enumerate(sheets):
        title = titles[index] if index < len(titles) else name
        yield f"[sheet {title}]\n"
        for number, row in enumerate(_rows(archive, name, shared)):
            if number == MOST_ROWS:
                yield f"[… the rest is left out: only {MOST_ROWS:,} rows are read]\n"
                break
            yield row + "\n"
        yield "\n"


def _rows(archive: zipfile.ZipFile, name: str, shared: list[str]) -> Iterator[str]:
    cells: list[str] = []
    value = ""
    for tag, element in _elements(archive, name):
        if tag in {"v", "t"}:
            value = element.text or ""
        elif tag == "c":
            if element.get("t") == "s" and value.isdecimal() and int(value) < len(shared):
                value = shared[int(value)]
            if len(cells) < MOST_CELLS:
                cells.append(value.replace("\t", " ").replace("\n", " "))
            value = ""
        elif tag == "row":
            yield "\t".join(cells).rstrip()
            cells = []
            element.clear()


def _powerpoint(content: bytes) -> Iterator[str]:
    archive = _opened(content)
    slides = sorted(
        (
            name
            for name in archive.namelist()
            if re.fullmatch(r"ppt/(slides/slide|notesSlides/notesSlide)\d+\.xml", name)
        ),
        key=lambda name: (int(re.sub(r"\D", "", name)), name.startswith("ppt/notes")),
    )
    for name in slides:
        number, notes = re.sub(r"\D", "", name), name.startswith("ppt/notes")
        yield f"[{'notes of ' * notes}slide {number}]\n"
        line: list[str] = []
        for tag, element in _elements(archive, name):
            if tag == "t":
                line.append(element.text or "")
            elif tag == "p":
                yield "".join(line) + "\n"
                line = []
        yield "\n"


def _archive(content: bytes, part: str) -> str:
    archive = _opened(content)
    if not part:
        entries = [each for each in archive.infolist() if not each.is_dir()]
        return "\n".join(f"{each.filename}\t{each.file_size:,} bytes" for each in entries)
    if part not in archive.namelist():
        raise UnreadableError(f"It has no entry {part[:100]}.")
    with _entry(archive, part) as entry:
        inner = entry.read(MOST_CHARACTERS * 4)
    kind = kind_of(inner)
    if kind:
        return text_of(inner, kind) if kind != ARCHIVE else _archive(inner, "")
    if b"\0" in inner:
        raise UnreadableError("That entry is no text.")
    return inner.decode("utf-8", "replace")[:MOST_CHARACTERS]


def kind_of(content: bytes) -> str:
    """Return the media type of a document by its content; empty for any other content."""
    if content.startswith(b"%PDF-"):
        return PDF
    if not content.startswith(b"PK\x03\x04") or not zipfile.is_zipfile(io.BytesIO(content)):
        return ""
    # The names of the entries stand at the end, not compressed.
    for name, kind in (
        (b"word/document.xml", WORD),
        (b"xl/workbook.xml", EXCEL),
        (b"ppt/presentation.xml", POWERPOINT),
    ):
        if name in content:
            return kind
    return ARCHIVE


def main() -> None:
    """Read a document from standard input and write its text, or its pages, to standard output."""
    media_type, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    found: dict[str, str | int]
    try:
        content = sys.stdin.buffer.read()
        if media_type == COUNT_PAGES:
            found = {"pages": pages_of(content)}
        else:
            found = {"text": text_of(content, media_type, part)}
    except UnreadableError as error:
        found = {"error": str(error)}
    except MemoryError:
        found = {"error": "It needs more memory than I may use."}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
