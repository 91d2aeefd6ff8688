"""The text of documents, also of hostile ones, is extracted within limits."""

import io
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from bot.conversations.file_kinds import document_type
from bot.isolated import run_isolated
from skills.attachments import extract
from skills.attachments.extract import MOST_ROWS, UnreadableError, kind_of, text_of
from tests.fakes.documents import archive, excel, pdf, powerpoint, word

SCRIPT = Path(extract.__file__)
PLAN = word("Our plan", "Feed & water".replace("&", "&amp;"), table=(("Hens", "3"), ("Dogs", "1")))
SHEET = excel(
    '<row><c t="s"><v>0</v></c><c><v>1.5</v></c></row>'
    '<row><c t="s"><v>1</v></c><c t="inlineStr"><is><t>new</t></is></c></row>',
    "name",
    "Ada",
)


def read(content: bytes, part: str = "") -> str:
    return text_of(content, kind_of(content), part)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (PLAN, "Our plan\nFeed & water\nHens\t3\nDogs\t1"),
        (SHEET, "[sheet Hens]\nname\t1.5\nAda\tnew"),
        (powerpoint("One", "Two"), "[slide 1]\nOne\n\n[slide 2]\nTwo"),
        (pdf("Three hens"), "[page 1]\nThree hens"),
        (archive({"a.txt": "hello"}), "a.txt\t5 bytes"),
    ],
    ids=["word", "excel", "powerpoint", "pdf", "archive"],
)
def test_the_text_of_a_document(content: bytes, expected: str) -> None:
    assert kind_of(content) == document_type(content) != ""
    assert read(content) == expected


def test_an_entry_of_an_archive_is_read_whatever_it_is() -> None:
    packed = archive({"a.txt": "hello", "plan.docx": PLAN, "x.bin": b"\0\1"})

    assert read(packed, "a.txt") == "hello"
    assert read(packed, "plan.docx").startswith("Our plan")
    with pytest.raises(UnreadableError, match="no text"):
        read(packed, "x.bin")
    with pytest.raises(UnreadableError, match="no entry other"):
        read(packed, "other")


def test_a_protected_document_is_refused() -> None:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("Secret"))))
    writer.encrypt("password", algorithm="RC4-128")
    made = io.BytesIO()
    writer.write(made)

    with pytest.raises(UnreadableError, match="password"):
        read(made.getvalue())


@pytest.mark.parametrize(
    "content",
    [
        PLAN.replace(b"<w:body>", b"<w:nobo>")[:-30] + PLAN[-30:],
        archive({"word/document.xml": "<a><b>"}),
        archive({"xl/workbook.xml": "nothing", "xl/worksheets/sheet1.xml": ""}),
        b"%PDF-1.4\nnothing",
    ],
)
def test_a_broken_document_is_refused(content: bytes) -> None:
    if kind_of(content):
        try:
            assert isinstance(read(content), str)
        except UnreadableError:
            return


def test_an_entry_that_declares_too_much_is_refused() -> None:
    bomb = archive({"word/document.xml": b" " * 60_000_000})

    with pytest.raises(UnreadableError, match="too large"):
        read(bomb)


def test_entities_are_not_expanded_without_end() -> None:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<!DOCTYPE x [<!ENTITY e0 "hens">{levels}]><x><t>&e9;</t></x>'

    with pytest.raises(UnreadableError, match="broken"):
        read(archive({"word/document.xml": bomb}))


def test_of_a_long_sheet_the_first_rows_are_read() -> None:
    text = read(excel("<row><c><v>1</v></c></row>" * (MOST_ROWS + 5)))

    assert text.count("\n1") == MOST_ROWS
    assert "the rest is left out" in text


@pytest.mark.processes
async def test_in_its_process_a_document_is_read_and_one_that_needs_too_much_fails() -> None:
    async def run(content: bytes, megabytes: int) -> bytes:
        kind = kind_of(content)
        return await run_isolated(SCRIPT, kind, given=content, seconds=30, megabytes=megabytes)

    assert b"Our plan" in await run(PLAN, 500)
    assert b"more memory" in await run(
        archive({"word/document.xml": f"<x><t>{'h' * 45_000_000}</t></x>"}), 60
    )
