"""What the bot says on Slack, in words: harmless whatever is in it (pure).

`for_slack` is the last step of everything that is not our own: see `docs/decisions/0010`.
"""

import re
from collections.abc import Iterator
from unicodedata import east_asian_width

from bot.agent.plain import LIMIT
from bot.agent.sanitizer import for_slack, in_slack_line, one_line
from bot.platforms.base import Announcement, Choice, Confirmation, RunCard
from bot.platforms.paper import Paper
from bot.platforms.splitting import split
from bot.platforms.wording import (
    LONGEST_LABEL,
    MOST_TO_PICK,
    nested,
    one_of,
    stop_watch,
)
from bot.run_texts import StatusText, counted, status_text
from bot.values import short

#: What one message takes. Slack says 12,000, and 13,200 for all blocks of a message together.
MOST_CHARACTERS = 10_000
#: What a section takes is 3,000.
MOST_IN_SECTION = 2_900
#: What fits on a button or into a menu.
MOST_ON_BUTTON = 75
#: What an edit takes as plain text.
MOST_IN_EDIT = 4_000

EMPTY = "_(There is no text.)_"
NO_ANSWER = "_(The answer is empty.)_"
IN_FILE = "The whole text is in the file."
REPEATED = "This may be a repetition: it is not known whether it reached you before."
ELSEWHERE = "I cannot write any more where this belongs, so I tell you here."
NO_THREAD = "I cannot write in the thread any more where this belongs, so I say it here."
THINKING = "is thinking…"
HEARD = "eyes"

#: What a model thinks is shown by the core for as long as it is the newest thing: it is replaced
#: by what comes next, and so cannot be part of a stream.
_THOUGHT = re.compile(r"(?:\A|\n\n)💭[^\n]*\Z")
_ENTITY_CUT = re.compile(r"&[a-z]{0,3}\Z")
_ACCOUNT = re.compile(r"[UW][A-Z0-9]+")


# --- any text -----------------------------------------------------------------------------------


def harmless(text: str, *, links: bool = True, growing: bool = False) -> str:
    """Return Markdown as Slack may show it, whole.

    Args:
        text: Markdown.
        links: Labels may stand for addresses; `False` where every address has to be seen.
        growing: More of the text follows.
    """
    return for_slack(text, limit=2 * len(text) + LIMIT, links=links, growing=growing)


def mrkdwn(text: str) -> str:
    """Return Markdown in Slack's older dialect, which is all that some blocks understand."""
    return for_slack(text, limit=2 * len(text) + LIMIT, older=True)


def inline(text: str, limit: int) -> str:
    """Return text for the middle of a line: harmless, at most `limit` characters as it is sent."""
    line = in_slack_line(one_line(text, limit).replace("`", "'"))
    if len(line) <= limit:
        return line
    return _ENTITY_CUT.sub("", line[: limit - 1]).rstrip() + "…"


def code(text: str, limit: int) -> str:
    """Return text as inline code; empty for none."""
    inside = inline(text, limit)
    return f"`{inside}`" if inside else ""


def mention(account: str) -> str:
    """Return our own words that ping a person, or nobody when that is no account of a person."""
    return f"<@{account}>" if _ACCOUNT.fullmatch(account) else ""


def written_out(markdown: str) -> str:
    """Return harmless Markdown for a file, where nothing is markup: as it was before escaping."""
    return markdown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def whole_words(text: str) -> str:
    """Return a text that grows without its last word, which may be half of a secret."""
    end = len(text)
    while end and not (text[end - 1].isspace() or east_asian_width(text[end - 1]) in "WF"):
        end -= 1
    return text[:end]


def settled(text: str) -> str:
    """Return the part of a growing text that what follows is not going to change.

    What the model thinks is left off.
    """
    said = _THOUGHT.sub("", text)
    return said if said != text else whole_words(text)


def newest(markdown: str) -> str:
    """Return harmless Markdown that grows, as one message: its end, when it is too long."""
    parts = split(markdown, MOST_CHARACTERS)
    if len(parts) > 1:
        return f"…\n{split(markdown, MOST_CHARACTERS // 3)[-1]}"
    return parts[0] if parts else ""


def paper_of(markdown: str, *, name: str, empty: str = EMPTY) -> Paper:
    """Return harmless Markdown in messages.

    Args:
        markdown: The text.
        name: Of the file that it becomes when it is very long.
        empty: What stands there when the text is blank.
    """
    parts = split(markdown, MOST_CHARACTERS) or [empty]
    return Paper(tuple(parts), written_out(f"{markdown}\n"), name)


# --- run cards ----------------------------------------------------------------------------------


def card_text(card: RunCard) -> str:
    """Return what a run card says, in mrkdwn, far below what a section takes."""
    return "\n".join(_card_lines(card))


def _card_lines(card: RunCard) -> Iterator[str]:
    status = _status(card)
    head = f"{status.icon} *{name_of(card)}* · `{short(card.run_id)}` · {status.words}"
    facts = " · ".join(fact for fact in _facts(card) if fact)
    collapsed = card.awaited and card.status.final
    yield from [f"{head} · {facts}"] if collapsed else [head, facts]
    if card.tool and not card.status.final and not card.steps:
        yield f"🔧 {code(card.tool, 80)}"
    if (line := inline(card.line, 150)) and not collapsed:
        yield f"↳ {line}"
    steps = [(code(step.tool, 40), step.state) for step in card.steps]
    yield from nested(steps, earlier=card.earlier_steps)


def _facts(card: RunCard) -> Iterator[str]:
    yield code(card.agent, 40)
    yield stop_watch(card.elapsed_seconds) if card.elapsed_seconds >= 1 else ""
    yield counted(card.tool_calls, "tool call")
    budget = counted(card.token_budget, "token")
    yield f"{card.tokens:,} of {budget}" if card.token_budget else counted(card.tokens, "token")


def name_of(card: RunCard) -> str:
    """Return what its owner calls a run."""
    return inline(card.label, 120) or inline(card.agent, 120) or short(card.run_id)


def card_notice(card: RunCard) -> str:
    """Return what a notification says about a run."""
    return f"{name_of(card)}: {_status(card).words}"


def _status(card: RunCard) -> StatusText:
    return status_text(card.status, inline(card.stopped_by, 60), degraded=card.degraded)


# --- what is said about runs ----------------------------------------------------------------------


def title_of(announcement: Announcement) -> str:
    """Return the heading of an announcement; empty for none."""
    title = inline(announcement.title, 250)
    return f"*{title}*" if title else ""


def tail_of(announcement: Announcement) -> str:
    """Return the quiet lines below an announcement; empty for none.

    Who stopped a run is named and not mentioned: on Slack a mention pings.
    """
    stopper = announcement.stopped_by
    lines = [f"Stopped by @{inline(stopper.name, 60)}."] if stopper else []
    lines += [inline(announcement.footer, 250)]
    lines += [REPEATED] if announcement.maybe_repeated else []
    return "\n".join(line for line in lines if line)


def question_tail(confirmation: Confirmation, expires: int) -> str:
    """Return how and until when a question can be answered: Slack shows the reader's own time.

    Args:
        confirmation: The question.
        expires: When it ends, in seconds since 1970.
    """
    when = f"<!date^{expires}^{{date_short_pretty}} {{time}}|{_minutes(confirmation)} from now>"
    if confirmation.open_ended:
        return f"Answer here with a message, or press a button. The question ends at {when}."
    return f"The question ends at {when}; no answer counts as no."


def question_twin(confirmation: Confirmation, asked: str) -> str:
    """Return a question for where its buttons are not: in notifications, for screen readers.

    Args:
        confirmation: The question.
        asked: Its text, harmless already.
    """
    choices = confirmation.choices[:MOST_TO_PICK]
    if confirmation.open_ended:
        labels = [f"`{each.key}` {choice_label(each)}" for each in choices]
        return "\n".join([asked, *labels, "Answer here with a message."])
    words = one_of([f"`{each.key}`" for each in choices])
    one = "".join(
        f" (`{each.key} {confirmation.id[-6:]}` when several are open)" for each in choices[:1]
    )
    ends = f"No answer within {_minutes(confirmation)} counts as no."
    return f"{asked}\nAnswer here with {words}{one}. {ends}"


def choice_label(choice: Choice) -> str:
    """Return what stands on a button, as it is sent."""
    return inline(choice.label, LONGEST_LABEL) or choice.key


def _minutes(confirmation: Confirmation) -> str:
    return f"{max(1, round(confirmation.expires_in_seconds / 60))} min"
