"""Words runs, memories and undelivered results in the block of a turn (pure)."""

from collections.abc import Sequence

from bot.agent.sanitizer import escape_for_model, one_line
from bot.run_texts import status_text
from bot.values import short
from db.memories import Memory, fitting
from db.outbox import OutboxEntry
from db.runs import Run

UNDELIVERED_CHARACTERS = 2000
MEMORIES = 12
MEMORY_CHARACTERS = 1500


def run_line(run: Run, asked: str = "") -> str:
    """Return a run in a line for the model, with the question that it asks."""
    label, task = escape_for_model(one_line(run.label, 60)), one_line(run.task, 120)
    words = status_text(run.status, degraded=run.degraded).words
    line = f"{short(run.id)} “{label}” ({run.agent}, {words}): {escape_for_model(task)}"
    return f"{line} — {escape_for_model(one_line(asked, 400))}" if asked else line


def memory_lines(found: Sequence[Memory], text: str) -> list[str]:
    """Return a user's memories: those that match this text first, then the newest.

    All memories would crowd the message out; `recall` finds the rest.
    """
    lines: list[str] = []
    room = MEMORY_CHARACTERS
    for memory in dict.fromkeys([*fitting(found, text)[: MEMORIES // 2], *found]):
        line = f"{memory.number}: {escape_for_model(memory.text)}"
        room -= len(line)
        if room < 0 or len(lines) == MEMORIES:
            break
        lines.append(line)
    return lines


def undelivered_lines(items: Sequence[OutboxEntry]) -> list[str]:
    """Return the undelivered announcements in lines, their texts cut to a common length."""
    lines, room = [], UNDELIVERED_CHARACTERS
    for item in items:
        text = escape_for_model(one_line(item.text, min(room, 500)))
        title = escape_for_model(one_line(item.title, 100))
        what = "files of the result" if item.text_delivered else "result"
        lines.append(f"{short(item.run_id or item.key)} “{title}” ({what}, not delivered): {text}")
        room -= len(text)
        if room <= 0:
            break
    return lines
