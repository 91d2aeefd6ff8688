"""Converts printed items to rich renderables (pure)."""

import io

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.text import Text

from bot.agent.sanitizer import safe_markdown
from bot.platforms.base import Announcement, CommandReply, Confirmation, RunCard, Weight
from bot.platforms.terminal.cards import ended_lines
from bot.platforms.terminal.markdown import SafeMarkdown
from bot.platforms.terminal.surface import FinalReply, Notice, Printable, TypedLine
from bot.platforms.terminal.texts import (
    REPEATED,
    answer_hint,
    choice_lines,
    footer_of,
    number_of,
    prompt_of,
    run_id_in,
    title_of,
)
from bot.values import short

#: Most lines of a result in its panel; the run's log contains the whole result.
PANEL_LINES = 200

_STYLES = {Weight.GOOD: "green", Weight.BAD: "red", Weight.PLAIN: ""}


def renderable(said: Printable) -> RenderableType:
    """Return the renderable of a printed item."""
    match said:
        case FinalReply(text) | Notice(text):
            return Group(_markdown(text), "")
        case TypedLine(user, text):
            return Text(safe_markdown(prompt_of(user) + text), style="bold")
        case RunCard():
            return Group(*ended_lines(said))
        case Announcement():
            return _panel(said)
        case CommandReply():
            return _command_reply(said)
        case Confirmation():
            return _question(said)


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


def _panel(announcement: Announcement) -> RenderableType:
    run_id = run_id_in(announcement.key)
    body: RenderableType = _markdown(announcement.text)
    if run_id:
        body = _Cut(body, PANEL_LINES, f"/subagents log {short(run_id)} shows all.")
    parts = [body]
    if announcement.maybe_repeated:
        parts.append(Text(REPEATED, style="yellow"))
    if footer := footer_of(announcement):
        parts.append(Text(safe_markdown(footer), style="dim"))
    title = Text(title_of(announcement), style="bold")
    return Panel(Group(*parts), title=title, title_align="left", border_style="cyan")


def _command_reply(reply: CommandReply) -> RenderableType:
    text = f"✗ {reply.text}" if reply.failed else reply.text
    parts: list[RenderableType] = [_markdown(text)]
    if reply.more:
        parts.append(Text(f"There is more: {safe_markdown(reply.more)}", style="dim"))
    return Group(*parts, "")


def _question(confirmation: Confirmation) -> RenderableType:
    choices = [
        Text(safe_markdown(line), style=_STYLES[choice.weight])
        for choice, line in choice_lines(confirmation)
    ]
    hint = Text(answer_hint(confirmation), style="dim")
    return Panel(
        Group(_markdown(confirmation.text), *choices, hint),
        title=Text(f"Question {number_of(confirmation)}", style="bold"),
        title_align="left",
        border_style="yellow",
    )
