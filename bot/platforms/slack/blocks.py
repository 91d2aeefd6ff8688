"""What the bot says on Slack, in blocks: cards, announcements, questions, forms, Home (pure)."""

import json
from collections.abc import Iterable, Iterator, Sequence

from bot.platforms.base import (
    Announcement,
    Choice,
    CommandReply,
    Confirmation,
    Overview,
    RunCard,
    Weight,
)
from bot.platforms.slack import texts
from bot.platforms.splitting import split
from bot.platforms.wording import MOST_TO_PICK
from bot.values import Json, short

STOP, LOG, SEND, RESUME = "run:stop", "run:log", "run:send", "run:resume"
#: What the buttons of a question begin with; the key of the choice follows.
ASK = "ask:"
MORE, CHOICE = "more", "run:choice"
#: The form for a message to a run, its block and its field.
SEND_FORM, SEND_BLOCK, SEND_FIELD = "run:send", "message", "text"

#: How many buttons stand side by side.
MOST_IN_ROW = 5
#: What a form takes, and a menu.
LONGEST_MESSAGE, MOST_CHOICES = 3_000, 100
#: How many runs of each kind a Home tab shows: it takes 100 blocks.
MOST_AT_HOME = 15
#: How many paragraphs a window shows: it takes 100 blocks.
MOST_IN_WINDOW = 90
#: What a view takes is 250,000 bytes as JSON, in which an emoji may be a hundred.
MOST_IN_VIEW = 200_000

#: How Slack shows a choice; everything else is plain.
_STYLES = {Weight.GOOD: "primary", Weight.BAD: "danger", Weight.PLAIN: ""}


# --- pieces -------------------------------------------------------------------------------------


def section(mrkdwn: str) -> Json:
    """Return a paragraph in Slack's older dialect, harmless already, at most 3,000 characters."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": mrkdwn}}


def quiet(mrkdwn: str) -> Json:
    """Return a small grey line, harmless already."""
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": mrkdwn}]}


def plain(text: str) -> Json:
    """Return a text without any formatting, harmless already."""
    return {"type": "plain_text", "text": text, "emoji": False}


def _sections(markdown: str, *, most: int = 8) -> list[Json]:
    parts = split(texts.mrkdwn(markdown), texts.MOST_IN_SECTION, max_parts=most)
    return [section(part) for part in parts]


def _button(label: str, action: str, value: str, *, owner: str = "", style: str = "") -> Json:
    button: Json = {
        "type": "button",
        "text": plain(label),
        "action_id": action,
        "value": value,
    }
    if style:
        button["style"] = style
    if owner:
        button["visible_to_user_ids"] = [owner]
    return button


# --- messages -----------------------------------------------------------------------------------


def said(*, head: str, markdown: str, tail: str) -> tuple[Json, ...]:
    """Return a message with our own words around a text; all of it harmless already.

    Args:
        head: Above it, in mrkdwn; empty for none.
        markdown: The text.
        tail: Below it, in mrkdwn; empty for none.
    """
    return (
        *([section(head)] if head else []),
        {"type": "markdown", "text": markdown},
        *([quiet(tail)] if tail else []),
    )


def resume_button(announcement: Announcement) -> tuple[Json, ...]:
    """Return the button that resumes the announced run, which its owner alone sees."""
    if not announcement.resumable:
        return ()
    owner = announcement.owner.account
    button = _button("Resume", RESUME, announcement.resumable, owner=owner)
    return ({"type": "actions", "elements": [button]},)


def card_blocks(card: RunCard, text: str) -> tuple[Json, ...]:
    """Return a run card, whose buttons its owner alone sees.

    Args:
        card: The state of the run.
        text: What the card says.
    """
    return (section(text), _run_buttons(card, owner=card.owner.account))


def _run_buttons(card: RunCard, *, owner: str) -> Json:
    buttons = [_button("Log", LOG, card.run_id, owner=owner)]
    if card.status.resumable:
        buttons = [_button("Resume", RESUME, card.run_id, owner=owner), *buttons]
    if not card.status.final:
        stop = _button("Stop", STOP, card.run_id, owner=owner, style="danger")
        stop["confirm"] = _sure()
        buttons = [stop, *buttons, _button("Send", SEND, card.run_id, owner=owner)]
    return {"type": "actions", "elements": buttons}


def _sure() -> Json:
    return {
        "title": plain("Stop this run?"),
        "text": plain("It ends with what it has found so far."),
        "confirm": plain("Stop it"),
        "deny": plain("Let it go on"),
        "style": "danger",
    }


def question_blocks(confirmation: Confirmation, *, mrkdwn: str, tail: str) -> tuple[Json, ...]:
    """Return a question with its buttons, which the one who is asked alone sees.

    Args:
        confirmation: The question.
        mrkdwn: Its text, harmless already, at most 3,000 characters.
        tail: How and until when it can be answered.
    """
    buttons = [_choice_button(confirmation, each) for each in confirmation.choices[:MOST_TO_PICK]]
    rows = [buttons[at : at + MOST_IN_ROW] for at in range(0, len(buttons), MOST_IN_ROW)]
    actions = [{"type": "actions", "elements": row} for row in rows]
    return (section(mrkdwn), quiet(tail), *actions)


def _choice_button(confirmation: Confirmation, choice: Choice) -> Json:
    return _button(
        texts.choice_label(choice),
        f"{ASK}{choice.key}",
        confirmation.id,
        owner=confirmation.owner.account,
        style=_STYLES[choice.weight],
    )


def answered_blocks(mrkdwn: str, outcome: str) -> tuple[Json, ...]:
    """Return a question that has been answered: without buttons.

    Args:
        mrkdwn: The question as its message showed it.
        outcome: What became of it, not yet harmless.
    """
    return (section(mrkdwn), quiet(texts.inline(outcome, 250) or "Answered."))


# --- answers to commands ------------------------------------------------------------------------


def more_button(reply: CommandReply) -> tuple[Json, ...]:
    """Return the button for the next page of an answer; nothing when there is none."""
    if not reply.more:
        return ()
    return ({"type": "actions", "elements": [_button("More", MORE, reply.more[:2_000])]},)


def run_menu(choices: Sequence[tuple[str, str]], command: str) -> tuple[Json, ...]:
    """Return a menu of somebody's runs; nothing when there are none.

    Args:
        choices: (id, label) of each.
        command: What to do with the one that is chosen, such as `/subagents stop`: the block's id.
    """
    options = [
        {"text": plain(_choice(run_id, label)), "value": run_id[:150]}
        for run_id, label in choices[:MOST_CHOICES]
    ]
    if not options:
        return ()
    menu = {
        "type": "static_select",
        "action_id": CHOICE,
        "placeholder": plain("Choose a run"),
        "options": options,
    }
    return ({"type": "actions", "block_id": command, "elements": [menu]},)


def _choice(run_id: str, label: str) -> str:
    """Return what a menu calls a run: its id last, since labels may be the same."""
    number = f" · {short(run_id)}"
    return texts.inline(label, texts.MOST_ON_BUTTON - len(number)) + number


def send_form(run_id: str, *, remembered: str = "") -> Json:
    """Return the form for a message to a run.

    Args:
        run_id: Which.
        remembered: What the app wants to know when it comes back, at most 3,000 characters.
    """
    return {
        "type": "modal",
        "callback_id": SEND_FORM,
        "private_metadata": remembered or run_id,
        "title": plain("Message to a run"),
        "submit": plain("Send"),
        "close": plain("Cancel"),
        "blocks": [
            {
                "type": "input",
                "block_id": SEND_BLOCK,
                "label": plain(f"What should run {short(run_id)} know?"),
                "element": {
                    "type": "plain_text_input",
                    "action_id": SEND_FIELD,
                    "multiline": True,
                    "max_length": LONGEST_MESSAGE,
                },
            }
        ],
    }


def reading(reply: CommandReply) -> Json:
    """Return a window that shows the answer of a command."""
    more = f"\n\nMore: `{reply.more}`" if reply.more else ""
    return {
        "type": "modal",
        "title": plain("Retinue"),
        "close": plain("Close"),
        "blocks": _sections(reply.text + more, most=MOST_IN_WINDOW) or [section(texts.EMPTY)],
    }


# --- Home ---------------------------------------------------------------------------------------


def home(overview: Overview) -> Json:
    """Return the Home tab of a person: their runs, their usage, the agents they may name."""
    return {"type": "home", "blocks": _fitting(_home_blocks(overview))}


def _fitting(blocks: Iterable[Json]) -> list[Json]:
    """Return the first blocks, as many as a view takes."""
    left, found = MOST_IN_VIEW, []
    for block in blocks:
        left -= len(json.dumps(block))
        if left < 0:
            break
        found.append(block)
    return found


def notice_at_home(text: str) -> Json:
    """Return a Home tab that says why there is nothing else, not yet harmless."""
    return {"type": "home", "blocks": _sections(text)}


def _home_blocks(overview: Overview) -> Iterator[Json]:
    yield {"type": "header", "text": plain("My runs")}
    if not overview.active:
        yield section("None is going on. Ask me for something that takes a while.")
    yield from _runs_at_home(overview.active)
    if overview.ended:
        yield {"type": "header", "text": plain("Recently finished")}
        yield from _runs_at_home(overview.ended)
    yield {"type": "divider"}
    yield from _sections(overview.usage)
    if overview.agents:
        yield {"type": "divider"}
        yield from _sections("\n".join(["**Agents**", *overview.agents]))


def _runs_at_home(cards: Sequence[RunCard]) -> Iterator[Json]:
    for card in cards[:MOST_AT_HOME]:
        yield section(texts.card_text(card))
        yield _run_buttons(card, owner="")
    if len(cards) > MOST_AT_HOME:
        yield quiet(f"{len(cards) - MOST_AT_HOME} more: `/subagents list` names them all.")
