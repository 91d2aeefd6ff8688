"""Messages on Slack that are updated during work: replies and run cards."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from bot.conversations.access import is_private
from bot.errors import DeliveryError
from bot.platforms.base import OnBegun, RunCard, not_kept
from bot.platforms.messaging.cards import CardMessage
from bot.platforms.messaging.live import FILE_NAME, LEAVE_SECONDS, GrowingReply, LiveMessage
from bot.platforms.messaging.pacing import Pace, Spacing
from bot.platforms.messaging.splitting import MessageParts
from bot.platforms.slack import blocks
from bot.platforms.slack.abilities import Abilities, Ability
from bot.platforms.slack.budget import BudgetedPace, RequestBudget, WorkspaceBudgets
from bot.platforms.slack.problems import CONTENT, STILL_THERE, STREAMING, RefusedError
from bot.platforms.slack.sending import FINAL_REST_SECONDS, Draft, Sender, made_harmless
from bot.platforms.slack.status import PROCESSING, Status
from bot.platforms.slack.texts import (
    MOST_CHARACTERS,
    NO_ANSWER,
    NO_THREAD,
    card_notice,
    card_text,
    newest,
    parts_of,
    settled,
    whole_words,
)
from bot.tasks import Tasks
from bot.values import Identity, Place

log = logging.getLogger(__name__)

#: The least time between two additions to one stream, in seconds.
GROW_SECONDS = 1.0


class SlackMessage(LiveMessage[Draft]):
    """A message in the thread of a place, or in its channel if the place has no thread.

    Args:
        sender: Sends the message.
        place: The place of the message.
        message_id: The id of a message from an earlier process; empty for none.
        begun: Called with the id of each message that is posted.

    Attributes:
        place: The current or future place of the message.
    """

    def __init__(self, sender: Sender, place: Place, *, message_id: str, begun: OnBegun) -> None:
        super().__init__(message_id, begun)
        self.place = place
        self._sender = sender

    async def text(self) -> str:
        """Return the visible text of the message."""
        return await self._sender.text_of(self.place, self.message_id)

    async def post(self, draft: Draft) -> str:
        """Post the message in its place."""
        return await self._sender.post(self.place, draft)

    async def edit(self, draft: Draft, *, final: bool) -> DeliveryError | None:
        """Edit the message; return the error if it can never, or not soon enough, be edited."""
        sender, place, message_id = self._sender, self.place, self.message_id
        try:
            try:
                await sender.edit(place, message_id, draft, final=final)
            except RefusedError as error:
                if error.code != STREAMING:
                    raise
                # An earlier process could not end its stream.
                await sender.stop_stream(place, message_id, session=PROCESSING)
                await sender.edit(place, message_id, draft, final=final)
        except RefusedError as error:
            if error.token_refused:
                raise
            return error
        except DeliveryError as error:
            if not final or error.retry_after_seconds <= FINAL_REST_SECONDS:
                raise
            return error
        return None

    def still_shown(self, refused: DeliveryError) -> bool:
        """Return True if Slack refuses the edit of a message that exists."""
        return not isinstance(refused, RefusedError) or refused.code in STILL_THERE | CONTENT

    async def delete(self, message_id: str) -> None:
        """Delete an earlier message."""
        await self._sender.delete(self.place, message_id)

    def leave_thread(self) -> bool:
        """Continue with a new message outside of the thread; return False if that is impossible.

        Call this when the thread accepts no more messages. Only direct messages have the same
        reader outside of their threads.
        """
        if not self.place.thread or not is_private(self.place):
            return False
        self.place = replace(self.place, thread="")
        self.message_id = ""
        return True


class SlackCard(CardMessage[Draft]):
    """The message that shows one run, edited within the budget of its workspace.

    Args:
        sender: Sends the message.
        budgets: Limit the edits per workspace.
        tasks: Owns the task that updates the message.
        card: The run's first state.
        seconds: The least time between two edits.
        pauses: Backoff before each further attempt to show the final state, in seconds.
    """

    message: SlackMessage

    def __init__(
        self,
        sender: Sender,
        budgets: WorkspaceBudgets,
        tasks: Tasks,
        card: RunCard,
        *,
        seconds: float,
        pauses: tuple[float, ...],
    ) -> None:
        message = SlackMessage(sender, card.place, message_id=card.message_id, begun=not_kept)

        def budget() -> RequestBudget | None:
            return budgets.edits[card.place.workspace] if message.message_id else None

        pace = BudgetedPace(Spacing(seconds), budget, urgent=lambda: self.final)
        super().__init__(message, pace, tasks, pauses=pauses)

    def render(self, card: RunCard) -> tuple[str, Draft]:
        """Return a state as text and blocks."""
        text = card_text(card)
        return text, Draft(blocks=blocks.card_blocks(card, text), mrkdwn=card_notice(card))

    async def draw(self, card: RunCard) -> None:
        """Show a state; leave a thread that accepts no more messages if possible."""
        try:
            await super().draw(card)
        except RefusedError as error:
            if not error.thread_gone or not self.message.leave_thread():
                raise
            await super().draw(card)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyOptions:
    """The limits of replies and the features that they use.

    Attributes:
        edit_seconds: The least time between two edits of one message.
        grow_seconds: The least time between two additions to one stream.
    """

    status: Status
    abilities: Abilities
    budgets: WorkspaceBudgets
    edit_seconds: float
    grow_seconds: float = GROW_SECONDS


@dataclass(slots=True)
class _Stream:
    """A message that grows as a Slack stream.

    Attributes:
        shown: The text of the stream so far, escaped.
        begun: Whether the message exists.
    """

    shown: str = ""
    begun: bool = False


@dataclass(frozen=True, slots=True)
class _Rhythm(Pace):
    """The pace of a reply: `growing` while it is a stream, then `editing`."""

    growing: Pace
    editing: Pace
    grows: Callable[[], bool]

    async def turn(self, *, final: bool) -> None:
        """Wait until the next request may start."""
        await (self.growing if self.grows() else self.editing).turn(final=final)


class SlackReply(GrowingReply[Draft]):
    """A reply on Slack: a stream if Slack supports it, else a message that is edited.

    Args:
        sender: Sends the messages.
        tasks: Owns the task of the edits.
        options: The limits and features.
        place: The place of the reply.
        owner: The user who gets the reply.
        message_id: The id of the message from an earlier process; empty for none.
        begun: Called with the id of each message that is posted.
    """

    _message: SlackMessage

    def __init__(
        self,
        sender: Sender,
        tasks: Tasks,
        options: ReplyOptions,
        place: Place,
        owner: Identity,
        *,
        message_id: str,
        begun: OnBegun,
    ) -> None:
        self._sender = sender
        self._options = options
        self._place = place
        self._owner = owner
        streams = place.thread and not message_id and options.abilities.has(Ability.STREAM, place)
        self._stream = _Stream() if streams else None
        #: The state of the thread's session that was sent with the end of the stream.
        self._session = ""
        self._working = True
        message = SlackMessage(sender, place, message_id=message_id, begun=begun)
        budgets, workspace = options.budgets, place.workspace

        def growths() -> RequestBudget | None:
            begun = self._stream is not None and self._stream.begun
            return budgets.growths[workspace] if begun else None

        def edits() -> RequestBudget | None:
            return budgets.edits[workspace] if message.message_id else None

        pace = _Rhythm(
            growing=BudgetedPace(Spacing(options.grow_seconds), growths),
            editing=BudgetedPace(Spacing(options.edit_seconds), edits),
            grows=lambda: self._stream is not None,
        )
        super().__init__(message, pace, tasks)
        options.status.begin(place)

    async def _preview(self, text: str) -> str:
        return newest(await made_harmless(whole_words(text)))

    async def _parts(self, text: str) -> MessageParts:
        return parts_of(await made_harmless(text), name=FILE_NAME, empty=NO_ANSWER)

    def _draft(self, markdown: str) -> Draft:
        return Draft(markdown=markdown)

    async def _post_rest(self, parts: MessageParts) -> tuple[str, ...]:
        return await self._sender.post_rest(self._message.place, parts)

    # -- streams ---------------------------------------------------------------------------------

    async def _grow(self, text: str) -> None:
        if self._stream is None or not await self._extend(self._stream, text):
            await super()._grow(text)

    async def _extend(self, stream: _Stream, text: str) -> bool:
        """Extend the stream to a text; return False if the stream had to be abandoned."""
        markdown = await made_harmless(settled(text), growing=True)
        if not markdown.startswith(stream.shown):
            log.info("A reply is edited from now on: what was shown of it has changed")
            await self._leave_stream()
            return False
        if len(markdown) > MOST_CHARACTERS:
            # `finish` divides the text into messages.
            markdown = settled(markdown[:MOST_CHARACTERS])
        more = markdown[len(stream.shown) :]
        if not more.strip():
            return True
        try:
            await self._append(stream, more)
        except DeliveryError as error:
            if stream.begun and not error.permanent and not error.fate_unknown:
                raise
            log.info("A reply is edited from now on: %s", error)
            await self._leave_stream()
            return False
        stream.shown = markdown
        return True

    async def _append(self, stream: _Stream, more: str) -> None:
        if stream.begun:
            await self._sender.append_stream(self._place, self._message.message_id, more)
            return
        if not self._options.budgets.streams[self._place.workspace].take_now():
            raise DeliveryError("Too many answers begin at once.")
        try:
            message_id = await self._sender.start_stream(self._place, self._owner, more)
        except RefusedError as error:
            self._options.abilities.lost(Ability.STREAM, self._place, error)
            raise
        stream.begun = True
        self._message.adopt(message_id)

    async def _leave_stream(self) -> None:
        """End the stream, so that the message can be edited from now on."""
        stream, self._stream = self._stream, None
        if stream is None or not stream.begun:
            return
        message_id = self._message.message_id
        try:
            await self._sender.stop_stream(self._place, message_id, session=PROCESSING)
        except DeliveryError as error:
            log.debug("A stream had ended before: %s", error)

    # -- the end ---------------------------------------------------------------------------------

    async def _finish_first(self, markdown: str) -> None:
        """End the stream with the final text, or edit the message."""
        stream = self._stream
        if stream is None or not stream.begun:
            self._stream = None
        elif markdown.startswith(stream.shown.rstrip()):
            state = self._options.status.after(self._place)
            rest, message_id = markdown[len(stream.shown) :], self._message.message_id
            try:
                await self._sender.stop_stream(self._place, message_id, rest, session=state)
            except DeliveryError as error:
                log.info("The end of a reply is an edit: %s", error)
            else:
                self._session = state
                return
        await self._leave_stream()
        try:
            await super()._finish_first(markdown)
        except RefusedError as error:
            if not error.thread_gone or not self._message.leave_thread():
                raise
            said = blocks.said(head=NO_THREAD, markdown=markdown, tail="")
            await self._message.show(Draft(blocks=said, mrkdwn=f"{NO_THREAD}\n{markdown}"))

    async def abandon(self) -> None:
        """Leave the message unchanged: this or another process will resume the turn."""
        await super().abandon()
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._leave_stream()
        except TimeoutError:
            log.info("A stream could not be ended in time")

    def _ended(self, *, abandoned: bool = False) -> None:
        if self._working:
            self._working = False
            if abandoned:
                self._options.status.leave(self._place)
            else:
                self._options.status.end(self._place, session=self._session)
