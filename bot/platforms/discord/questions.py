"""Questions with a button for each choice, answered by a click or a message and then settled."""

import logging
import re
from typing import Any, Self

import discord

from bot.errors import DeliveryError
from bot.platforms.base import Choice, Confirmation, Settlement, Weight
from bot.platforms.discord.buttons import Button, Clicked, DynamicButton, Row, Unkept
from bot.platforms.discord.interactions import AdmittedInteraction, admit, show, stored_reply
from bot.platforms.discord.sending import Draft, Sender
from bot.platforms.discord.texts import (
    MOST_CHARACTERS,
    choice_label,
    harmless,
    inline,
    question_tail,
)
from bot.platforms.messaging.intake import outcome
from bot.platforms.messaging.texts import MOST_TO_PICK, decision

log = logging.getLogger(__name__)

#: Most characters in a message made of components.
MOST_TEXT = 4_000
#: Most characters shown of a written answer.
MOST_OF_ANSWER = 100
#: Number of messages that are searched for a settled question.
LOOKED_THROUGH = 100

_STYLES = {
    Weight.GOOD: discord.ButtonStyle.success,
    Weight.BAD: discord.ButtonStyle.danger,
    Weight.PLAIN: discord.ButtonStyle.secondary,
}
#: Patterns of the hint below a question, which is removed once the question is answered.
_TAILS = "|".join(
    re.escape(question_tail(0, open_ended=open_ended)).replace(":0:", r":\d+:")
    for open_ended in (False, True)
)
_ENDS = re.compile(rf"\n?(?:{_TAILS})\Z")


class AnswerButton(DynamicButton, template=r"ask:(?P<key>[a-z0-9]{1,8}):(?P<id>[\w-]{1,80})"):
    """Answers an open question."""

    def __init__(self, confirmation_id: str, choice: Choice) -> None:
        label = choice_label(choice)
        super().__init__(
            Button(
                label=label,
                style=_STYLES[choice.weight],
                custom_id=f"ask:{choice.key}:{confirmation_id}",
            )
        )
        self.confirmation_id, self.key, self.label = confirmation_id, choice.key, label

    @classmethod
    async def from_custom_id(
        cls, interaction: Clicked, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """Return the button that was clicked."""
        label = item.label if isinstance(item, discord.ui.Button) else None
        return cls(match["id"], Choice(match["key"], label or ""))

    async def callback(self, interaction: Clicked) -> None:
        """Pass the answer to the core; replace the buttons with the answer and its author."""
        await admit(interaction, self._answer)

    async def _answer(self, admitted: AdmittedInteraction) -> None:
        answered = admitted.inbound.answer(
            admitted.user,
            self.confirmation_id,
            choice=self.key,
            place=admitted.place,
            admin=admitted.admin,
        )
        asked = outcome(answered, f"confirmation {self.confirmation_id}")
        reply = await stored_reply(admitted, asked, thinking=False)
        assert reply is not None, "Every answer is answered."
        if not reply.refused:
            interaction, question = admitted.interaction, admitted.interaction.message
            assert question is not None, "Only messages have buttons."
            note = _note(admitted.user.account, self.label, self.key)
            # Not through the interaction, which may have expired while the answer was processed.
            sender = Sender(interaction.client)
            await _show_note(sender, str(interaction.channel_id), question, note)
        elif admitted.shared:
            return  # another process has taken the same click
        await show(admitted, reply)


def row_for(confirmation: Confirmation) -> Row:
    """Return the buttons below a question."""
    choices = confirmation.choices[:MOST_TO_PICK]
    return Row(*(AnswerButton(confirmation.id, choice) for choice in choices))


class Settled(Unkept, discord.ui.LayoutView):
    """A settled question: its text and a note about the answer."""

    def __init__(self, question: discord.Message, note: str) -> None:
        super().__init__(timeout=None)
        asked = discord.ui.LayoutView.from_message(question, timeout=None)
        room = MOST_TEXT - len(note)
        box: discord.ui.Container[Settled] = discord.ui.Container()
        for item in asked.walk_children():
            if isinstance(item, discord.ui.TextDisplay) and (text := item.content[:room]):
                box.add_item(discord.ui.TextDisplay(text))
                room -= len(text)
        self.add_item(box.add_item(discord.ui.TextDisplay(note)))


async def show_settlement(sender: Sender, channel: str, asked: str, settlement: Settlement) -> bool:
    """Settle a question among the newest messages of a channel; return True if it was found."""
    try:
        newest = await sender.newest(channel, LOOKED_THROUGH)
    except DeliveryError as error:
        log.info("The question %s was answered and still has its buttons: %s", asked, error)
        return False
    button_of = re.compile(rf"ask:[^:]+:{re.escape(asked)}")
    found = [
        message
        for message in newest
        if any(
            button_of.fullmatch(button.custom_id or "")
            for row in message.components
            if isinstance(row, discord.ActionRow)
            for button in row.children
        )
    ]
    note = harmless(inline(settlement.chosen, MOST_OF_ANSWER))
    if settlement.by is not None:
        note = _note(settlement.by.account, settlement.chosen, settlement.key)
    for message in found:
        await _show_note(sender, channel, message, note)
    return bool(found)


def _note(account: str, label: str, key: str = "") -> str:
    return decision(f"<@{account}>", harmless(inline(label, MOST_OF_ANSWER)) or "…", key)


async def _show_note(sender: Sender, channel: str, question: discord.Message, note: str) -> None:
    """Replace the buttons of a question with a note about the answer."""
    if question.flags.components_v2:
        draft = Draft(view=Settled(question, note))
    else:
        asked = _ENDS.sub("", question.content)[: MOST_CHARACTERS - len(note) - 2]
        draft = Draft(text=f"{asked}\n\n{note}", view=Row())
    try:
        await sender.edit(channel, str(question.id), draft)
    except DeliveryError as error:
        log.info("The question %s was answered and still has its buttons: %s", question.id, error)
