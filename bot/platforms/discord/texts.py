"""Formats texts for Discord: cards, announcements, questions (pure)."""

import re

from bot.agent.dialects import for_discord, in_discord_line
from bot.agent.plain import LIMIT
from bot.agent.sanitizer import one_line
from bot.platforms.base import Announcement, Choice, Confirmation, RunCard
from bot.platforms.messaging.cards import CardParts, batch_line, card_lines
from bot.platforms.messaging.splitting import MessageParts, split
from bot.platforms.messaging.texts import LONGEST_LABEL, stop_watch
from bot.run_texts import status_text
from bot.values import RunStatus

#: Most characters in one message.
MOST_CHARACTERS = 2_000
#: Characters per piece of a growing text that exceeds one message; its last two pieces are shown.
PIECE = 900
#: Largest deviation of a run's computed start that leaves the card unchanged.
DRIFT_SECONDS = 5
#: The name of a thread whose message has no text, and the most characters of any name.
THREAD_NAME, THREAD_NAME_CHARACTERS = "Conversation", 90

EMPTY = "_(There is no text.)_"
NO_ANSWER = "_(The answer is empty.)_"
IN_FILE = "-# The whole text is in the file."
REPEATED = "-# This may be a repetition: it is not known whether it reached you before."
ELSEWHERE = "I cannot write any more where this belongs, so I tell you here."

GREY, BLUE, YELLOW, GREEN, RED = 0x80848E, 0x5865F2, 0xF0B232, 0x23A55A, 0xDA373C

_MENTION = re.compile(r"<@[!&]?\d+>")
_SPECIAL = re.compile(r"<https?://[^\s<>]*>|[\\*_~|]", re.IGNORECASE)


#: The accent colours of run cards; the card of any other status is red.
COLOURS = {
    RunStatus.QUEUED: GREY,
    RunStatus.ACCEPTED: GREY,
    RunStatus.RUNNING: BLUE,
    RunStatus.COMPLETED: GREEN,
    RunStatus.WAITING_APPROVAL: YELLOW,
    RunStatus.WAITING_INPUT: YELLOW,
    RunStatus.CANCELLED: YELLOW,
}


# --- any text -----------------------------------------------------------------------------------


def harmless(text: str, *, links: bool = True) -> str:
    """Return harmless Markdown for Discord, without truncation.

    Args:
        text: Markdown.
        links: Whether links may have labels; `False` shows every address.
    """
    return for_discord(text, limit=2 * len(text) + LIMIT, links=links)


def inline(text: str, limit: int) -> str:
    """Return text for use within a line, at most `3 * limit` characters.

    Formatting and hiding are disabled. Pass the text that contains the result to `harmless`.
    """
    line = one_line(text, limit).replace("`", "'")
    return _SPECIAL.sub(
        lambda match: match[0] if len(match[0]) > 1 else f"\\{match[0]}", in_discord_line(line)
    )


def code(text: str, limit: int) -> str:
    """Return text as inline code. Pass the text that contains the result to `harmless`."""
    inside = one_line(text, limit).replace("`", "'")
    return f"`{inside}`" if inside else ""


def newest(markdown: str) -> str:
    """Return growing harmless Markdown as one message, shortened to its end if too long."""
    parts = split(markdown, MOST_CHARACTERS)
    if len(parts) > 1:
        return "\n".join(["…", *split(markdown, PIECE)[-2:]])
    return parts[0] if parts else ""


def parts_of(
    markdown: str, *, name: str, head: str = "", tail: str = "", empty: str = EMPTY
) -> MessageParts:
    """Return harmless Markdown split into messages.

    Args:
        markdown: The text.
        name: The name of the file for a very long text.
        head: A prefix of the first message, at most 1,000 characters.
        tail: A suffix of the last message, at most 1,000 characters.
        empty: The text of the message if `markdown` is blank.
    """
    parts = split(markdown, MOST_CHARACTERS - len(head)) or [empty]
    parts[0] = head + parts[0]
    if tail and len(parts[-1]) + len(tail) < MOST_CHARACTERS:
        parts[-1] += f"\n{tail}"
    elif tail:
        parts.append(tail)
    return MessageParts(tuple(parts), f"{markdown}\n", name)


def mention(account: str) -> str:
    """Return a mention that pings the account; empty without an account."""
    return f"<@{account}> " if account else ""


# --- run cards ----------------------------------------------------------------------------------


def card_text(card: RunCard, started: int) -> str:
    """Return the text of a run card, far below the length limit of a message.

    Args:
        card: The state of the run.
        started: Start of a running run in seconds since 1970; Discord shows the time since then.
    """
    return harmless("\n".join(card_lines(card, _card_parts(card, started))))


def batch_text(card: RunCard, started: int) -> str:
    """Return one run of several that share a message; the arguments are those of `card_text`."""
    return harmless(batch_line(card, _card_parts(card, started)))


def _card_parts(card: RunCard, started: int) -> CardParts:
    elapsed = stop_watch(card.elapsed_seconds) if card.elapsed_seconds >= 1 else ""
    return CardParts(
        status=status_text(card.status, inline(card.stopped_by, 60), degraded=card.degraded),
        name=f"**{inline(card.label, 80) or inline(card.agent, 80) or 'run'}**",
        elapsed=f"started <t:{started}:R>" if card.status is RunStatus.RUNNING else elapsed,
        line=inline(card.line, 100),
        code=code,
    )


def start_of(card: RunCard, now: float, before: int = 0) -> int:
    """Return the start of a run in seconds since 1970, or `before` if the two nearly agree.

    A start that shifted by a second at every update would cause an edit at every update.
    """
    started = int(now - card.elapsed_seconds)
    return before if abs(started - before) <= DRIFT_SECONDS else started


# --- announcements, questions and threads ---------------------------------------------------------


def announcement_text(announcement: Announcement) -> str:
    """Return title and text of an announcement as Markdown. Pass the result to `harmless`."""
    title = inline(announcement.title, 200)
    heading = f"**{title}**\n" if title else ""
    return f"{heading}{announcement.text.strip()}"


def announcement_tail(announcement: Announcement, *, shared: bool) -> str:
    """Return the small print below an announcement.

    Args:
        announcement: The announcement.
        shared: Whether others can read it; a stopper on Discord is then mentioned, not named.
    """
    footer = inline(announcement.footer, 200)
    stopper = announcement.stopped_by
    lines = []
    if stopper is not None:
        by = stopper.identity
        mentioned = shared and by.platform == "discord" and by.account.isdecimal()
        name = f"<@{by.account}>" if mentioned else harmless(f"@{inline(stopper.name, 60)}")
        lines = [f"-# Stopped by {name}."]
    lines += [f"-# {footer}"] if footer else []
    lines += [REPEATED] if announcement.maybe_repeated else []
    return "\n".join(lines)


def question_text(confirmation: Confirmation) -> str:
    """Return a question as Markdown without spoilers. Pass the result to `harmless` without links.

    Nothing in a question may be hidden.
    """
    return confirmation.text.replace("||", "| |")


def question_tail(expires: int, *, open_ended: bool = False) -> str:
    """Return the hint below a question: the ways to answer and the deadline.

    Args:
        expires: The deadline, in seconds since 1970.
        open_ended: Whether a message is accepted as an answer.
    """
    ends = f"The question ends <t:{expires}:R>"
    if open_ended:
        return f"-# Answer here with a message (reply to this one), or press a button. {ends}."
    return f"-# {ends}; no answer counts as no."


def choice_label(choice: Choice) -> str:
    """Return the label of a choice's button."""
    label = harmless(one_line(choice.label, LONGEST_LABEL))
    return one_line(label, LONGEST_LABEL) or choice.key


def thread_name(said: str) -> str:
    """Return the name of a thread, taken from the message that starts the thread."""
    return one_line(harmless(_MENTION.sub(" ", said)), THREAD_NAME_CHARACTERS) or THREAD_NAME
