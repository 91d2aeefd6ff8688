"""Builds Slack blocks: cards, announcements, questions, forms, Home (pure)."""

import json
from collections.abc import Iterator, Sequence
from itertools import accumulate

from bot.conversations.command_table import COMMANDS
from bot.platforms.base import (
    Announcement,
    CommandReply,
    Confirmation,
    Overview,
    RunCard,
    Weight,
)
from bot.platforms.messaging.cards import batch_head
from bot.platforms.messaging.splitting import split
from bot.platforms.messaging.texts import MOST_TO_PICK
from bot.platforms.slack import texts
from bot.values import Json, short

#: Prefix of the action ids of the buttons about a run; the name of the command follows.
RUN = "run:"
#: Prefix of the action ids of a question's buttons; the key of the choice follows.
ASK = "ask:"
MORE, CHOICE = "more", "run:choice"
#: The form for a message to a run, its block and its field.
SEND_FORM, SEND_BLOCK, SEND_FIELD = "run:send", "message", "text"

#: Most buttons in one row.
MOST_IN_ROW = 5
#: Most characters in a form's field, and most options in a menu.
LONGEST_MESSAGE, MOST_CHOICES = 3_000, 100
#: Most runs of each kind in a Home tab, which is limited to 100 blocks.
MOST_AT_HOME = 15
#: Most paragraphs in a window, which is limited to 100 blocks.
MOST_IN_WINDOW = 90
#: Most bytes of a view as JSON. Slack's limit is 250,000; one emoji may take a hundred bytes.
MOST_IN_VIEW = 200_000

#: Slack's button style for each weight; empty for the default style.
_STYLES = {Weight.GOOD: "primary", Weight.BAD: "danger", Weight.PLAIN: ""}


# --- elements -----------------------------------------------------------------------------------


def section(mrkdwn: str) -> Json:
    """Return a paragraph of `mrkdwn`, already escaped, at most 3,000 characters."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": mrkdwn}}


def quiet(mrkdwn: str) -> Json:
    """Return a small grey line of `mrkdwn`, already escaped."""
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": mrkdwn}]}


def plain(text: str) -> Json:
    """Return a text object without formatting; the text is already escaped."""
    return {"type": "plain_text", "text": text, "emoji": False}


def actions(*elements: Json) -> Json:
    """Return a row of buttons and menus."""
    return {"type": "actions", "elements": list(elements)}


def _sections(markdown: str, *, most: int = 8) -> list[Json]:
    parts = split(texts.mrkdwn(markdown), texts.MOST_IN_SECTION, max_parts=most)
    return [section(part) for part in parts]


def _button(label: str, action: str, value: str, *, owner: str = "", style: str = "") -> Json:
    button: Json = {"type": "button", "text": plain(label), "action_id": action, "value": value}
    button |= {"style": style} if style else {}
    return button | ({"visible_to_user_ids": [owner]} if owner else {})


# --- messages -----------------------------------------------------------------------------------


def resume_button(announcement: Announcement) -> tuple[Json, ...]:
    """Return the button that resumes the announced run, visible only to its owner."""
    if not announcement.resumable:
        return ()
    owner = announcement.owner.account
    return (actions(_run_button("resume", announcement.resumable, owner=owner)),)


def notice_buttons(announcement: Announcement) -> tuple[Json, ...]:
    """Return the buttons of a notice to admins, which all readers of its channel see."""
    buttons = [
        _button(texts.choice_label(each.choice), f"{ASK}{each.choice.key}", each.notice)
        for each in announcement.buttons[:MOST_IN_ROW]
    ]
    return (actions(*buttons),) if buttons else ()


def card_blocks(cards: Sequence[RunCard]) -> tuple[Json, ...]:
    """Return a message about one run or several, with buttons visible only to their owner."""
    if len(cards) == 1:
        [card] = cards
        return (section(texts.card_text(card)), _run_buttons(card, owner=card.owner.account))
    owner = cards[0].owner.account
    rows: list[Json] = [section(f"*{batch_head(cards)}*")]
    for card in cards:
        buttons = _buttons_of(card, owner=owner)
        rows.append(section(texts.batch_text(card)) | {"accessory": buttons[0]})
    if going := [card for card in cards if not card.status.final]:
        rows.append(actions(_stopping("Stop all", f"{going[0].run_id}+", owner=owner)))
    return tuple(rows)


def _run_buttons(card: RunCard, *, owner: str) -> Json:
    """Return the buttons of the commands that make sense for a run."""
    return actions(*_buttons_of(card, owner=owner))


def _buttons_of(card: RunCard, *, owner: str) -> list[Json]:
    return [
        _stopping("Stop", card.run_id, owner=owner)
        if each.button == "danger"
        else _run_button(each.name, card.run_id, owner=owner)
        for each in COMMANDS.commands
        if each.button and each.fits(card.status, False)  # noqa: FBT003 - it may be delivered
    ]


def _stopping(label: str, runs: str, *, owner: str) -> Json:
    """Return the button that stops a run, or all runs of its turn, after a question."""
    several = runs.endswith("+")
    button = _button(label, f"{RUN}stop", runs, owner=owner, style="danger")
    button["confirm"] = {
        "title": plain("Stop these runs?" if several else "Stop this run?"),
        "text": plain(f"{'They end' if several else 'It ends'} with what was found so far."),
        "confirm": plain("Stop them" if several else "Stop it"),
        "deny": plain("Let them go on" if several else "Let it go on"),
        "style": "danger",
    }
    return button


def _run_button(name: str, run_id: str, *, owner: str) -> Json:
    return _button(name.capitalize(), RUN + name, run_id, owner=owner)


def question_blocks(confirmation: Confirmation, *, mrkdwn: str, tail: str) -> tuple[Json, ...]:
    """Return a question with buttons that are visible only to its owner.

    Args:
        confirmation: The question.
        mrkdwn: The text of the question, already escaped, at most 3,000 characters.
        tail: The line about the form and the deadline of an answer.
    """
    owner = confirmation.owner.account
    buttons = [
        _button(
            texts.choice_label(each),
            f"{ASK}{each.key}",
            confirmation.id,
            owner=owner,
            style=_STYLES[each.weight],
        )
        for each in confirmation.choices[:MOST_TO_PICK]
    ]
    rows = [buttons[at : at + MOST_IN_ROW] for at in range(0, len(buttons), MOST_IN_ROW)]
    return (section(mrkdwn), quiet(tail), *(actions(*row) for row in rows))


def answered_blocks(mrkdwn: str, outcome: str) -> tuple[Json, ...]:
    """Return an answered question, without buttons.

    Args:
        mrkdwn: The question as its message showed it.
        outcome: The outcome of the question, not yet escaped.
    """
    return (section(mrkdwn), quiet(texts.inline(outcome, 250) or "Answered."))


# --- answers to commands ------------------------------------------------------------------------


def more_button(reply: CommandReply) -> tuple[Json, ...]:
    """Return the button for the next page of an answer; empty on the last page."""
    return (actions(_button("More", MORE, reply.more[:2_000])),) if reply.more else ()


def run_menu(choices: Sequence[tuple[str, str]], command: str) -> tuple[Json, ...]:
    """Return a menu of a user's runs; empty without runs.

    Args:
        choices: (id, label) of each run.
        command: The command for the chosen run, such as `/subagents stop`; used as the block's id.
    """
    if not choices:
        return ()
    options = []
    for run_id, label in choices[:MOST_CHOICES]:
        # The id is at the end, since labels need not be unique.
        number = f" · {short(run_id)}"
        text = texts.inline(label, texts.MOST_ON_BUTTON - len(number)) + number
        options.append({"text": plain(text), "value": run_id[:150]})
    menu = {
        "type": "static_select",
        "action_id": CHOICE,
        "placeholder": plain("Choose a run"),
        "options": options,
    }
    return ({**actions(menu), "block_id": command},)


def send_form(run_id: str, *, remembered: str = "") -> Json:
    """Return the form for a message to a run.

    Args:
        run_id: The id of the run.
        remembered: Metadata that the submitted form returns, at most 3,000 characters.
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
    """Return a window with the answer of a command."""
    more = f"\n\nMore: `{reply.more}`" if reply.more else ""
    return {
        "type": "modal",
        "title": plain("Retinue"),
        "close": plain("Close"),
        "blocks": _sections(reply.text + more, most=MOST_IN_WINDOW) or [section(texts.EMPTY)],
    }


# --- Home ---------------------------------------------------------------------------------------


def home(overview: Overview) -> Json:
    """Return the Home tab of a user: their runs, their usage, the agents they may name."""
    found: list[Json] = [{"type": "header", "text": plain("My runs")}]
    if not overview.active:
        found.append(section("None is going on. Ask me for something that takes a while."))
    found += _runs_at_home(overview.active)
    if overview.ended:
        found.append({"type": "header", "text": plain("Recently finished")})
        found += _runs_at_home(overview.ended)
    found += [{"type": "divider"}, *_sections(overview.usage)]
    if overview.agents:
        found += [{"type": "divider"}, *_sections("\n".join(["**Agents**", *overview.agents]))]
    sizes = accumulate(len(json.dumps(block)) for block in found)
    fits = [block for block, size in zip(found, sizes, strict=True) if size <= MOST_IN_VIEW]
    return {"type": "home", "blocks": fits}


def notice_at_home(text: str) -> Json:
    """Return a Home tab with only a notice, which is not yet escaped."""
    return {"type": "home", "blocks": _sections(text)}


def _runs_at_home(cards: Sequence[RunCard]) -> Iterator[Json]:
    for card in cards[:MOST_AT_HOME]:
        yield section(texts.card_text(card))
        yield _run_buttons(card, owner="")
    if len(cards) > MOST_AT_HOME:
        yield quiet(f"{len(cards) - MOST_AT_HOME} more: `/subagents list` names them all.")
