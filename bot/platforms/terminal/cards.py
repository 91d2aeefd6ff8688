"""Formats run cards for the terminal: one or two lines, and the tool calls below (pure)."""

from rich.text import Text

from bot.agent.sanitizer import one_line
from bot.platforms.base import RunCard
from bot.platforms.messaging.cards import tokens_of
from bot.platforms.messaging.texts import call_lines, stop_watch
from bot.run_texts import StatusText, counted, status_text
from bot.values import RunStatus, short

#: Most lines for the tool calls of a run.
STEP_LINES = 7


_COLOURS = {"⚪": "bright_black", "🔵": "cyan", "🟢": "green", "🔴": "red"}


def status_of(card: RunCard) -> StatusText:
    """Return the icon and the words for a run's status, on one line."""
    return status_text(card.status, one_line(card.stopped_by, 60), degraded=card.degraded)


def name_of(card: RunCard) -> str:
    """Return the run's label and short id, on one line."""
    return f"{one_line(card.label or card.agent, limit=40)} {short(card.run_id)}"


def facts_of(card: RunCard, elapsed: float) -> list[str]:
    """Return the facts of a card: elapsed time, current tool, tool calls, tokens."""
    facts = [stop_watch(elapsed)]
    if card.tool and not card.status.final:
        facts.append(one_line(card.tool, limit=40))
    facts.append(counted(card.tool_calls, "tool call"))
    facts.append(tokens_of(card))
    return facts


def progress_text(card: RunCard) -> str:
    """Return the progress line (features P1), empty if the run has reported nothing."""
    content = card.line or ("" if card.steps else card.tool)
    return f"↳ Subagent: {one_line(content)}" if content else ""


def step_lines(card: RunCard, most: int = STEP_LINES) -> list[str]:
    """Return at most `most` lines for the tool calls of a run (features P3)."""
    steps = [(one_line(step.tool, limit=40), step.state) for step in card.steps]
    return [f"  {line}" for line in call_lines(steps, calls=card.tool_calls, most=most)]


def live_lines(card: RunCard, elapsed: float, *, steps: int = STEP_LINES) -> list[Text]:
    """Return the lines of a running or queued run, with at most `steps` for its tool calls."""
    status = status_of(card)
    head = Text.assemble(
        (f"{status.icon} ", _COLOURS.get(status.icon, "yellow")),
        (name_of(card), "bold"),
        f" · {status.words} · " + " · ".join(facts_of(card, elapsed)),
    )
    return [head, *_progress(card), *_steps(card, steps)]


def ended_lines(card: RunCard) -> list[Text]:
    """Return the lines that stay on the screen after a run has ended (features P2)."""
    status = status_of(card)
    head = Text.assemble(
        (f"{status.icon} Subagent {status.words}", _COLOURS.get(status.icon, "yellow")),
        f" · {name_of(card)}",
        (" · " + " · ".join(facts_of(card, card.elapsed_seconds)), "bright_black"),
    )
    last = [] if card.status is RunStatus.COMPLETED or card.awaited else _progress(card)
    return [head, *last, *_steps(card)]


def _steps(card: RunCard, most: int = STEP_LINES) -> list[Text]:
    return [Text(line, style="bright_black") for line in step_lines(card, most)]


def _progress(card: RunCard) -> list[Text]:
    """Return the progress line: text white, tool cyan, error red, else grey."""
    line = progress_text(card)
    colour = "bright_black"
    if card.status is RunStatus.RUNNING:
        colour = "white" if card.line else "cyan"
    elif card.status.final and card.status is not RunStatus.COMPLETED:
        colour = "red"
    return [Text(f"  {line}", style=colour)] if line else []
