"""Small documents of each kind, made by hand."""

import io
import zipfile
from collections.abc import Mapping

_WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def archive(entries: Mapping[str, str | bytes]) -> bytes:
    """Return a ZIP archive with these entries."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in entries.items():
            opened.writestr(name, content)
    return made.getvalue()


def word(*paragraphs: str, table: tuple[tuple[str, ...], ...] = (), body: str = "") -> bytes:
    """Return a Word document of paragraphs and a table behind them."""
    run = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>".format
    rows = "".join(
        "<w:tr>" + "".join(f"<w:tc>{run(cell)}</w:tc>" for cell in row) + "</w:tr>" for row in table
    )
    content = body or "".join(map(run, paragraphs)) + f"<w:tbl>{rows}</w:tbl>" * bool(table)
    document = f"<w:document {_WORD}><w:body>{content}</w:body></w:document>"
    return archive({"[Content_Types].xml": "<a/>", "word/document.xml": document})


def excel(rows: str, *texts: str, sheet: str = "Hens") -> bytes:
    """Return an Excel workbook with one sheet.

    Args:
        rows: The rows as XML.
        texts: The shared texts.
        sheet: The name of the sheet.
    """
    shared = "".join(f"<si><t>{text}</t></si>" for text in texts)
    return archive(
        {
            "xl/workbook.xml": f'<workbook><sheets><sheet name="{sheet}"/></sheets></workbook>',
            "xl/sharedStrings.xml": f"<sst>{shared}</sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet><sheetData>{rows}</sheetData></worksheet>",
        }
    )


def powerpoint(*slides: str) -> bytes:
    """Return a presentation with one text per slide."""
    parts: dict[str, str | bytes] = {
        f"ppt/slides/slide{number}.xml": f'<s xmlns:a="a"><a:p><a:t>{text}</a:t></a:p></s>'
        for number, text in enumerate(slides, 1)
    }
    return archive({"ppt/presentation.xml": "<a/>"} | parts)


def pdf(text: str) -> bytes:
    """Return a PDF of one page."""
    stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R"
        " /Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    made, places = "%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return f"{made}{end}startxref\n{len(made)}\n%%EOF\n".encode()
