"""Converts HTML to Markdown in a separate process: `bot.net.pages` starts it.

The parser is C code that receives hostile input, and some of it takes time quadratic in the page.
"""

import re
import sys

import trafilatura
from lxml import etree, html

#: The extraction takes up to 0.3 ms for each element: a page with more is returned as bare text.
MOST_ELEMENTS = 20_000
MOST_CHARACTERS = 5_000_000

_SILENT = ("script", "style", "noscript", "template", "svg", "head", "iframe", "object")
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figure"),
        *("footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main"),
        *("nav", "ol", "p", "pre", "section", "table", "tr", "ul"),
    )
)
_BLANKS = re.compile(r"[^\S\n]+")
_EMPTY_LINES = re.compile(r"\n[ \n]*\n")


def to_markdown(text: str, url: str) -> str:
    """Return a page as Markdown, with its title.

    Args:
        text: The page.
        url: Its URL, for relative links.
    """
    parser = html.HTMLParser(remove_comments=True, remove_pis=True, encoding="utf-8")
    try:
        tree = html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.LxmlError, ValueError):
        return ""
    title = " ".join(str(tree.findtext(".//title") or "").split())
    body = _extracted(text, url) if sum(1 for _ in tree.iter()) <= MOST_ELEMENTS else ""
    body = body or _bare(tree)
    whole = f"# {title}\n\n{body}" if title and not body.startswith("# ") else body
    return whole[:MOST_CHARACTERS]


def _extracted(text: str, url: str) -> str:
    try:
        found = trafilatura.extract(
            text,
            url=url,
            output_format="markdown",
            include_links=True,
            include_tables=True,
            include_comments=False,
            favor_recall=True,
            fast=True,
        )
    except Exception:  # noqa: BLE001 - it was written for pages as they should be; see BOUNDARIES
        return ""
    return found or ""


def _bare(tree: html.HtmlElement) -> str:
    """Return all text of a page, one line per block."""
    parts = []
    silent = 0
    for event, element in etree.iterwalk(tree, events=("start", "end")):
        tag = element.tag
        silent += (tag in _SILENT) * (1 if event == "start" else -1)
        parts.append("\n" if tag in _BLOCKS else "")
        if not silent:
            parts.append((element.text if event == "start" else element.tail) or "")
    lines = (_BLANKS.sub(" ", line).strip() for line in "".join(parts).split("\n"))
    return _EMPTY_LINES.sub("\n\n", "\n".join(lines)).strip()


if __name__ == "__main__":
    page = sys.stdin.buffer.read().decode("utf-8", "replace")
    sys.stdout.buffer.write(to_markdown(page, sys.argv[1]).encode("utf-8", "replace"))
