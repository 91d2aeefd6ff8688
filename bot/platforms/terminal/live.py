"""Renders the live region above the prompt: growing answers, runs, open questions (pure)."""

from rich.console import Group
from rich.text import Text

from bot.agent.sanitizer import safe_markdown
from bot.platforms.terminal.cards import STEP_LINES, live_lines
from bot.platforms.terminal.state import TerminalState
from bot.platforms.terminal.texts import number_of, words_for
from bot.platforms.terminal.view import SafeMarkdown, to_ansi
from bot.values import Identity, RunStatus

#: Characters drawn of a growing answer, from its end: the region has no space for more.
TAIL_CHARACTERS = 2000


def live_region(state: TerminalState, user: Identity, *, width: int, height: int) -> str:
    """Return the live region of one user: at most `height` lines, or more if that is tiny."""
    status = [
        Text(f"? Question {number_of(item)} waits for you: {words_for(item)}", style="yellow")
        for item in state.questions_of(user)[-3:]
    ]
    replies = state.replies_of(user)
    if state.busy(user):
        since = min([reply.since for reply in replies] or [state.thinking[user.account]])
        word = "answering" if any(reply.text for reply in replies) else "thinking"
        seconds = int(state.now() - since)
        status.append(Text(f"{word}… {seconds} s (Ctrl-C stops it)", style="dim"))
    below = [*_card_lines(state, user, (height - 2) // 2), *status]
    for text in below:
        text.no_wrap, text.overflow = True, "ellipsis"
    lines = to_ansi(Group(*below), width).rstrip("\n").split("\n") if below else []
    answers = [line for reply in state.replies_of(user) for line in reply.drawn]
    free = max(height - len(lines), 1)
    return "\n".join(answers[-free:] + lines)


def answer_lines(text: str, width: int) -> tuple[str, ...]:
    """Return the rendered lines of a growing answer's end; dense text takes 0.1 s to render."""
    laid_out = to_ansi(SafeMarkdown(safe_markdown(tail_of(text))), width)
    return tuple(laid_out.rstrip("\n").split("\n"))


def tail_of(text: str, limit: int = TAIL_CHARACTERS) -> str:
    """Return the end of a Markdown text, from the start of a line; an open fence is reopened."""
    if len(text) <= limit:
        return text
    start = len(text) - limit
    start = text.find("\n", start) + 1 or start
    fences = sum(line.lstrip().startswith("```") for line in text[:start].splitlines())
    return ("```\n" if fences % 2 else "") + text[start:]


def _card_lines(state: TerminalState, user: Identity, most: int) -> list[Text]:
    going = state.cards_of(user)
    # Each card gets two lines; the remaining lines are shared equally among the tool calls.
    spare = max(0, most - 2 * len(going)) // max(1, len(going))
    cards = []
    for live in going:
        moving = live.card.status is RunStatus.RUNNING
        elapsed = live.card.elapsed_seconds + (state.now() - live.since) * moving
        cards.append(live_lines(live.card, elapsed, steps=min(spare, STEP_LINES)))
    shown: list[Text] = []
    for index, lines in enumerate(cards):
        left = len(cards) - index
        if len(shown) + len(lines) > most - (left > 1) and shown:
            return [*shown, Text(f"… and {left} more: /subagents list", style="dim")]
        shown += lines
    return shown
