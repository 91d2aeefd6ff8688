"""Builds the texts of Slack messages, escaped for Slack (pure).

`for_slack` is the last step for every text that is not our own: see `docs/decisions/0010`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width

from bot.agent.dialects import for_slack, in_slack_line
from bot.agent.plain import LIMIT
from bot.agent.sanitizer import one_line
from bot.platforms.base import Announcement, Choice, Confirmation, RunCard
from bot.platforms.messaging.cards import CardParts, batch_head, batch_line, card_lines
from bot.platforms.messaging.splitting import MessageParts, split
from bot.platforms.messaging.texts import LONGEST_LABEL, MOST_TO_PICK, alternatives, stop_watch
from bot.run_texts import StatusText, status_text
from bot.values import short

#: Most characters in one message. Slack's limit is 12,000, and 13,200 for all blocks of a message.
MOST_CHARACTERS = 10_000
#: Most characters in a section. Slack's limit is 3,000.
MOST_IN_SECTION = 2_900
#: Most characters on a button or in a menu's option.
MOST_ON_BUTTON = 75
#: Most characters in an edit with plain text.
MOST_IN_EDIT = 4_000

EMPTY = "_(There is no text.)_"
NO_ANSWER = "_(The answer is empty.)_"
IN_FILE = "The whole text is in the file."
REPEATED = "This may be a repetition: it is not known whether it reached you before."
ELSEWHERE = "I cannot write any more where this belongs, so I tell you here."
NO_THREAD = "I cannot write in the thread any more where this belongs, so I say it here."
THINKING = "is thinking…"
HEARD, READ = "eyes", "white_check_mark"

#: The last thought of a model. The core shows a thought only until the next text replaces it, so
#: that a thought cannot be part of a stream.
_THOUGHT = re.compile(r"(?:\A|\n\n)💭[^\n]*\Z")
_ENTITY_CUT = re.compile(r"&[a-z]{0,3}\Z")
_ACCOUNT = re.compile(r"[UW][A-Z0-9]+")
#: The usual name of one of the commands, where inline code begins with it.
_COMMAND = re.compile(r"(?<=`)/(retinue|subagents)(?=[ `])")


# --- any text -----------------------------------------------------------------------------------


def harmless(text: str, *, links: bool = True, growing: bool = False) -> str:
    """Return the whole Markdown, escaped for Slack.

    Args:
        text: Markdown.
        links: Labels may hide addresses; `False` if every address has to be visible.
        growing: More of the text follows.
    """
    return for_slack(text, limit=2 * len(text) + LIMIT, links=links, growing=growing)


def mrkdwn(text: str) -> str:
    """Return Markdown converted to `mrkdwn`, the only markup that some blocks support."""
    return for_slack(text, limit=2 * len(text) + LIMIT, older=True)


def inline(text: str, limit: int) -> str:
    """Return text for use within a line: escaped, then at most `limit` characters."""
    line = in_slack_line(one_line(text, limit).replace("`", "'"))
    if len(line) <= limit:
        return line
    return _ENTITY_CUT.sub("", line[: limit - 1]).rstrip() + "…"


def code(text: str, limit: int) -> str:
    """Return text as inline code; empty for none."""
    inside = inline(text, limit)
    return f"`{inside}`" if inside else ""


def mention(account: str) -> str:
    """Return a mention that pings a user; empty if the account is not a user's."""
    return f"<@{account}>" if _ACCOUNT.fullmatch(account) else ""


def written_out(markdown: str) -> str:
    """Return escaped Markdown without its escapes, for a file that is not rendered."""
    return markdown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def whole_words(text: str) -> str:
    """Return a growing text without its last word, which may be half of a secret."""
    end = len(text)
    while end and not (text[end - 1].isspace() or east_asian_width(text[end - 1]) in "WF"):
        end -= 1
    return text[:end]


def stable_part(text: str) -> str:
    """Return the part of a growing text that later text will not change, without thoughts."""
    said = _THOUGHT.sub("", text)
    return said if said != text else whole_words(text)


def newest(markdown: str) -> str:
    """Return growing, escaped Markdown as one message; only its end if it is too long."""
    parts = split(markdown, MOST_CHARACTERS)
    if len(parts) > 1:
        return f"…\n{split(markdown, MOST_CHARACTERS // 3)[-1]}"
    return parts[0] if parts else ""


def parts_of(markdown: str, *, name: str, empty: str = EMPTY) -> MessageParts:
    """Return escaped Markdown split into messages.

    Args:
        markdown: The text.
        name: The name of the file that replaces a very long text.
        empty: The replacement of a blank text.
    """
    parts = split(markdown, MOST_CHARACTERS) or [empty]
    return MessageParts(tuple(parts), written_out(f"{markdown}\n"), name)


@dataclass(frozen=True, slots=True)
class CommandNames:
    """The names of the slash commands in a workspace, which its admins may have changed.

    Attributes:
        chat: The command for everything.
        runs: The command for runs.
    """

    chat: str = "/retinue"
    runs: str = "/subagents"

    def shown(self, content: Any) -> Any:
        """Return a text, or the texts of a document, with the commands as users type them."""
        if self == CommandNames():
            return content
        if isinstance(content, str):
            return _COMMAND.sub(
                lambda found: self.chat if found[1] == "retinue" else self.runs, content
            )
        if isinstance(content, dict):
            return {key: self.shown(each) for key, each in content.items()}
        if isinstance(content, list | tuple):
            return [self.shown(each) for each in content]
        return content


# --- run cards ----------------------------------------------------------------------------------


def card_text(card: RunCard) -> str:
    """Return the text of a run card, in mrkdwn, far below the limit of a section."""
    return "\n".join(card_lines(card, _card_parts(card)))


def batch_text(card: RunCard) -> str:
    """Return one run of several that share a message, in mrkdwn."""
    return batch_line(card, _card_parts(card))


def _card_parts(card: RunCard) -> CardParts:
    return CardParts(
        status=_status(card),
        name=f"*{name_of(card)}*",
        elapsed=stop_watch(card.elapsed_seconds) if card.elapsed_seconds >= 1 else "",
        line=inline(card.line, 150),
        code=code,
    )


def name_of(card: RunCard) -> str:
    """Return the label of a run, or else its agent or its id."""
    return inline(card.label, 120) or inline(card.agent, 120) or short(card.run_id)


def card_notice(cards: Sequence[RunCard]) -> str:
    """Return the notification of a message that shows runs."""
    if len(cards) > 1:
        return batch_head(cards)
    [card] = cards
    return f"{name_of(card)}: {_status(card).words}"


def _status(card: RunCard) -> StatusText:
    return status_text(card.status, inline(card.stopped_by, 60), degraded=card.degraded)


# --- announcements and questions ------------------------------------------------------------------


def title_of(announcement: Announcement) -> str:
    """Return the heading of an announcement; empty for none."""
    title = inline(announcement.title, 250)
    return f"*{title}*" if title else ""


def tail_of(announcement: Announcement) -> str:
    """Return the small lines below an announcement; empty for none.

    The user who stopped a run is named but not mentioned, since a mention pings on Slack.
    """
    stopper = announcement.stopped_by
    lines = [f"Stopped by @{inline(stopper.name, 60)}."] if stopper else []
    lines += [inline(announcement.footer, 250)]
    lines += [REPEATED] if announcement.maybe_repeated else []
    return "\n".join(line for line in lines if line)


def question_tail(confirmation: Confirmation, expires: int) -> str:
    """Return the line about the form and the deadline of an answer, in the reader's local time.

    Args:
        confirmation: The question.
        expires: The deadline, in seconds since 1970.
    """
    when = f"<!date^{expires}^{{date_short_pretty}} {{time}}|{_minutes(confirmation)} from now>"
    if confirmation.open_ended:
        return f"Answer here with a message, or press a button. The question ends at {when}."
    return f"The question ends at {when}; no answer counts as no."


def question_twin(confirmation: Confirmation, asked: str) -> str:
    """Return a question as text without buttons, for notifications and screen readers.

    Args:
        confirmation: The question.
        asked: The text of the question, already escaped.
    """
    choices = confirmation.choices[:MOST_TO_PICK]
    if confirmation.open_ended:
        labels = [f"`{each.key}` {choice_label(each)}" for each in choices]
        return "\n".join([asked, *labels, "Answer here with a message."])
    words = alternatives([f"`{each.key}`" for each in choices])
    one = "".join(
        f" (`{each.key} {confirmation.id[-6:]}` when several are open)" for each in choices[:1]
    )
    ends = f"No answer within {_minutes(confirmation)} counts as no."
    return f"{asked}\nAnswer here with {words}{one}. {ends}"


def choice_label(choice: Choice) -> str:
    """Return the escaped label of a choice's button."""
    return inline(choice.label, LONGEST_LABEL) or choice.key


def _minutes(confirmation: Confirmation) -> str:
    return f"{max(1, round(confirmation.expires_in_seconds / 60))} min"
