"""Converts HTML to Markdown as a separate process, started and killed by `bot.net.pages`.

The parser is C code that receives hostile input, and some of it takes time quadratic in the page.
So this process has no data of the bot: not its memory, not its environment.
"""

import re
import resource
import sys
from contextlib import suppress

import trafilatura
from lxml import etree, html

#: The extraction takes up to 0.3 ms for each element: a page with more is returned as bare text.
MOST_ELEMENTS = 20_000
MOST_CHARACTERS = 5_000_000

CPU_SECONDS = 15
MEMORY_BYTES = 1024**3

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


def limit_this_process() -> None:
    """Limit CPU time and memory of this process, and forbid it to write files."""
    for what, most in (
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_DATA, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        # Not every system supports all of these limits.
        with suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    limit_this_process()
    page = sys.stdin.buffer.read().decode("utf-8", "replace")
    sys.stdout.buffer.write(to_markdown(page, sys.argv[1]).encode("utf-8", "replace"))
