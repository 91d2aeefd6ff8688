"""Markdown on the terminal: nothing of the text is lost, and no link hides where it goes."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.table import Table


class _WholeTable(TableElement):
    """A table whose cells are folded; rich would cut long words with an ellipsis."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                for column in part.columns:
                    column.overflow = "fold"
            yield part


class SafeMarkdown(Markdown):
    """Markdown from a model or a person, already cleaned of escape sequences.

    HTML stays visible text (rich would drop `List<int>`), link definitions stay (they would vanish
    when nothing refers to them), images become links, and every link shows its address, once.
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
    """Leave out the `!` of images, and the link around a text that is the address itself."""
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
