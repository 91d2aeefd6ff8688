"""Converts printed items to rich renderables (pure).

Markdown is rendered without losing text, and every link shows its address.
"""

import io
from collections.abc import Iterator, Sequence
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bot.agent.sanitizer import safe_markdown
from bot.platforms.base import Announcement, CommandReply, Confirmation, RunCard, Weight
from bot.platforms.terminal.cards import ended_lines
from bot.platforms.terminal.surface import FinalReply, Notice, Printable, TypedLine
from bot.platforms.terminal.texts import (
    REPEATED,
    answer_hint,
    choice_lines,
    footer_of,
    number_of,
    prompt_of,
    title_of,
)
from bot.values import short

#: Most lines of a result in its panel; the run's log contains the whole result.
PANEL_LINES = 200

_STYLES = {Weight.GOOD: "green", Weight.BAD: "red", Weight.PLAIN: ""}


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


def renderable(item: Printable) -> RenderableType:
    """Return the renderable of a printed item."""
    match item:
        case FinalReply(text) | Notice(text):
            return Group(_markdown(text), "")
        case TypedLine(user, text):
            return Text(safe_markdown(prompt_of(user) + text), style="bold")
        case RunCard():
            return Group(*ended_lines(item))
        case Announcement():
            body: RenderableType = _markdown(item.text)
            for run_id, _ in item.results[:1]:
                body = _Cut(body, PANEL_LINES, f"/subagents log {short(run_id)} shows all.")
            parts = [body]
            if item.maybe_repeated:
                parts.append(Text(REPEATED, style="yellow"))
            if footer := footer_of(item):
                parts.append(Text(safe_markdown(footer), style="dim"))
            title = Text(title_of(item), style="bold")
            return Panel(Group(*parts), title=title, title_align="left", border_style="cyan")
        case CommandReply():
            text = f"✗ {item.text}" if item.failed else item.text
            more = f"There is more: {safe_markdown(item.more)}" if item.more else ""
            return Group(_markdown(text), *([Text(more, style="dim")] if more else []), "")
        case Confirmation():
            choices = [
                Text(safe_markdown(line), style=_STYLES[choice.weight])
                for choice, line in choice_lines(item)
            ]
            hint = Text(answer_hint(item), style="dim")
            return Panel(
                Group(_markdown(item.text), *choices, hint),
                title=Text(f"Question {number_of(item)}", style="bold"),
                title_align="left",
                border_style="yellow",
            )


def to_ansi(shown: RenderableType, width: int) -> str:
    """Return a renderable as text with colour codes, in lines of at most `width` columns."""
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=True,
        width=width,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    console.print(shown)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


class _Cut:
    """Shows the first lines of a renderable and a notice about the rest."""

    def __init__(self, whole: RenderableType, lines: int, notice: str) -> None:
        self._whole = whole
        self._lines = lines
        self._notice = notice

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._whole, options, pad=False, new_lines=True)
        for line in lines[: self._lines]:
            yield from line
        if len(lines) > self._lines:
            yield Text(f"… {len(lines) - self._lines} more lines. {self._notice}", style="yellow")


def _markdown(text: str) -> SafeMarkdown:
    return SafeMarkdown(safe_markdown(text))
