"""Renders Markdown on the terminal without losing text; every link shows its address."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.table import Table


class _WholeTable(TableElement):
    """Wraps long words in table cells; rich cuts them with an ellipsis by default."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                for column in part.columns:
                    column.overflow = "fold"
            yield part


class SafeMarkdown(Markdown):
    """Renders Markdown from a model or a user, already cleaned of escape sequences.

    HTML stays visible text (rich would drop `List<int>`). Link definitions stay visible (unused
    ones would vanish). Images become links. Every link shows its address once.
    """

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "table_open": _WholeTable,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", code_theme="ansi_dark", hyperlinks=False)
        parser = MarkdownIt("commonmark", {"html": False})
        self.parsed = (
            parser.enable(["strikethrough", "table"]).disable(["image", "reference"]).parse(text)
        )
        for token in self.parsed:
            if token.children:
                token.children = list(_plain_links(token.children))


def _plain_links(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens without the `!` of images and without links whose text is the address."""
    whole = False
    for at, token in enumerate(tokens):
        follows = tokens[at + 1] if at + 1 < len(tokens) else None
        if token.type == "link_open" and follows is not None:
            whole = follows.type == "text" and follows.content == token.attrs["href"]
            whole = whole and tokens[at + 2].type == "link_close"
        if token.type == "text" and follows is not None and follows.type == "link_open":
            token.content = token.content.removesuffix("!")
        if not (whole and token.type in {"link_open", "link_close"}):
            yield token
        whole = whole and token.type != "link_close"
