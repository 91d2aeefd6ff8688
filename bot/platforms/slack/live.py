"""Messages on Slack that are updated during work: replies and run cards."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.conversations.access import is_private
from bot.errors import DeliveryError
from bot.platforms.base import RunCard
from bot.platforms.messaging.cards import LAST_PAUSES, CardMessage
from bot.platforms.messaging.live import FILE_NAME, LEAVE_SECONDS, GrowingReply, LiveMessage
from bot.platforms.messaging.pacing import Spacing
from bot.platforms.messaging.splitting import MessageParts
from bot.platforms.slack import blocks, texts
from bot.platforms.slack.budget import BudgetedPace, RequestBudget, WorkspaceBudgets
from bot.platforms.slack.problems import CONTENT, STILL_THERE, STREAMING, RefusedError
from bot.platforms.slack.sending import (
    FINAL_REST_SECONDS,
    PAUSES,
    Draft,
    Method,
    Sender,
    framed,
    made_harmless,
)
from bot.platforms.slack.status import PROCESSING, REFRESH_SECONDS, Ability, Status
from bot.tasks import Tasks
from bot.values import Identity, Place

log = logging.getLogger(__name__)

#: The least time between two additions to one stream, in seconds.
GROW_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempo:
    """Intervals and backoffs, in seconds; tests use shorter times than Slack needs.

    Attributes:
        edit_seconds: The least time between two edits of one message.
        grow_seconds: The least time between two additions to one stream.
        refresh_seconds: Interval at which the line "is thinking…" is set again.
        pauses: Backoff before each further attempt to send a message that follows a first one.
        last_pauses: Backoff before each further attempt to show the final state of a card.
    """

    edit_seconds: float
    grow_seconds: float = GROW_SECONDS
    refresh_seconds: float = REFRESH_SECONDS
    pauses: tuple[float, ...] = PAUSES
    last_pauses: tuple[float, ...] = LAST_PAUSES


@dataclass(eq=False)
class SlackMessage(LiveMessage[Draft]):
    """A message in the thread of a place, or in its channel if the place has no thread.

    Attributes:
        sender: Sends the message.
        place: The current or future place of the message.
    """

    sender: Sender
    place: Place

    async def text(self) -> str:
        """Return the visible text of the message; empty if it is not found."""
        response = await self._ask(
            AsyncWebClient.conversations_replies,
            ts=self.place.thread or self.message_id,
            oldest=self.message_id,
            latest=self.message_id,
            inclusive=True,
        )
        found = {each.get("ts"): each for each in response.get("messages") or ()}
        return str(found.get(self.message_id, {}).get("text") or "")

    async def post(self, draft: Draft) -> str:
        """Post the message in its place."""
        return await self.sender.post(self.place, draft)

    async def edit(self, draft: Draft, *, final: bool) -> DeliveryError | None:
        """Edit the message; return the error if it can never, or not soon enough, be edited."""
        edit = partial(self.sender.edit, self.place, self.message_id, draft, final=final)
        try:
            try:
                await edit()
            except RefusedError as error:
                if error.code != STREAMING:
                    raise
                # An earlier process could not end its stream.
                await self.end_stream(PROCESSING)
                await edit()
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
        await self._ask(AsyncWebClient.chat_delete, ts=message_id)

    async def append(self, markdown: str) -> None:
        """Append text to the stream of the message.

        Raises:
            RefusedError: Slack refuses the addition, for instance to a stream that has ended.
            DeliveryError: The text cannot be appended now, or its fate is unknown.
        """
        method = AsyncWebClient.chat_appendStream
        await self._ask(method, ts=self.message_id, markdown_text=markdown)

    async def end_stream(self, session: str, markdown: str = "") -> None:
        """End the stream of the message.

        Args:
            session: The new state of the thread's session.
            markdown: The rest of the text.

        Raises:
            DeliveryError: The stream has ended already, or cannot be ended now.
        """
        await self._ask(
            AsyncWebClient.chat_stopStream,
            ts=self.message_id,
            markdown_text=markdown or None,
            session_status=session,
        )

    async def _ask(self, method: Method, **arguments: Any) -> AsyncSlackResponse:
        """Call a method of the Web API that concerns a message in the channel of the place."""
        workspace, channel = self.place.workspace, self.place.channel
        return await self.sender.ask(workspace, method, channel=channel, **arguments)

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
    """The message that shows one run or several, edited within the budget of its workspace.

    Args:
        sender: Sends the message.
        budgets: Limit the edits per workspace.
        tasks: Owns the task that updates the message.
        card: The run's first state.
        tempo: The intervals of edits and retries.
    """

    message: SlackMessage

    def __init__(
        self,
        sender: Sender,
        budgets: WorkspaceBudgets,
        tasks: Tasks,
        card: RunCard,
        tempo: Tempo,
    ) -> None:
        message = SlackMessage(sender, card.place, message_id=card.message_id)
        spacing, edits = Spacing(tempo.edit_seconds), budgets.edits[card.place.workspace]
        pace = BudgetedPace(
            lambda: (spacing, edits if message.message_id else None), urgent=lambda: self.final
        )
        super().__init__(message, pace, tasks, pauses=tempo.last_pauses)

    def render(self, cards: Sequence[RunCard]) -> tuple[str, Draft]:
        """Return the states as text and blocks."""
        shown = blocks.card_blocks(cards)
        text = "\n".join(str(block) for block in shown)
        return text, Draft(blocks=shown, mrkdwn=texts.card_notice(cards))

    async def draw(self, cards: Sequence[RunCard]) -> None:
        """Show the states; leave a thread that accepts no more messages if possible."""
        try:
            await super().draw(cards)
        except RefusedError as error:
            if not error.thread_gone or not self.message.leave_thread():
                raise
            await super().draw(cards)


class SlackReply(GrowingReply[Draft]):
    """A reply on Slack: a stream if Slack supports it, else a message that is edited.

    Args:
        message: The first message of the reply.
        owner: The user who gets the reply.
        tasks: Owns the task of the edits.
        status: Shows that the bot works, and knows the features of the workspace.
        budgets: Limit the requests per workspace.
        tempo: The intervals of edits and additions.
    """

    _message: SlackMessage

    def __init__(
        self,
        message: SlackMessage,
        owner: Identity,
        tasks: Tasks,
        status: Status,
        budgets: WorkspaceBudgets,
        tempo: Tempo,
    ) -> None:
        self._sender, self._place = message.sender, message.place
        self._owner = owner
        self._status = status
        self._budgets = budgets
        fresh = self._place.thread and not message.message_id
        streams = fresh and status.abilities.has(Ability.STREAM, self._place)
        #: The text of the stream so far, escaped; `None` if the message is edited.
        self._stream = "" if streams else None
        #: The state of the thread's session that was sent with the end of the stream.
        self._session = ""
        self._working = True
        self._growing, self._editing = Spacing(tempo.grow_seconds), Spacing(tempo.edit_seconds)
        super().__init__(message, BudgetedPace(self._limits), tasks)
        status.begin(self._place)

    def _limits(self) -> tuple[Spacing, RequestBudget | None]:
        """Return the pace of the next request; the first one needs no budget of these."""
        if self._stream is not None:
            spacing, budgets = self._growing, self._budgets.growths
        else:
            spacing, budgets = self._editing, self._budgets.edits
        return spacing, budgets[self._place.workspace] if self._message.message_id else None

    async def _preview(self, text: str) -> str:
        return texts.newest(await made_harmless(texts.whole_words(text)))

    async def _parts(self, text: str) -> MessageParts:
        return texts.parts_of(await made_harmless(text), name=FILE_NAME, empty=texts.NO_ANSWER)

    def _draft(self, markdown: str) -> Draft:
        return Draft(markdown=markdown)

    async def _post_rest(self, parts: MessageParts) -> tuple[str, ...]:
        return await self._sender.post_rest(self._message.place, parts)

    # -- streams ---------------------------------------------------------------------------------

    async def _grow(self, text: str) -> None:
        if self._stream is None or not await self._extend(self._stream, text):
            await super()._grow(text)

    async def _extend(self, shown: str, text: str) -> bool:
        """Extend the stream from one text to another; return False if it had to be abandoned."""
        markdown = await made_harmless(texts.stable_part(text), growing=True)
        if not markdown.startswith(shown):
            await self._leave_stream("what was shown of it has changed")
            return False
        if len(markdown) > texts.MOST_CHARACTERS:
            # `finish` divides the text into messages.
            markdown = texts.stable_part(markdown[: texts.MOST_CHARACTERS])
        more = markdown[len(shown) :]
        if not more.strip():
            return True
        message_id = self._message.message_id
        try:
            if message_id:
                await self._message.append(more)
            elif self._budgets.streams[self._place.workspace].take_now():
                begun = await self._sender.start_stream(self._place, self._owner, more)
                self._message.adopt(begun)
            else:
                await self._leave_stream("too many answers begin at once")
                return False
        except DeliveryError as error:
            if message_id and not error.permanent and not error.fate_unknown:
                raise
            if isinstance(error, RefusedError) and not message_id:
                self._status.abilities.lost(Ability.STREAM, self._place, error)
            await self._leave_stream(str(error))
            return False
        self._stream = markdown
        return True

    async def _leave_stream(self, reason: str = "") -> None:
        """End the stream, so that the message can be edited from now on; log a given reason."""
        if reason:
            log.info("A reply is edited from now on: %s", reason)
        streamed, self._stream = self._stream is not None, None
        if not streamed or not self._message.message_id:
            return
        try:
            await self._message.end_stream(PROCESSING)
        except DeliveryError as error:
            log.debug("A stream had ended before: %s", error)

    # -- the end ---------------------------------------------------------------------------------

    async def _finish_first(self, markdown: str) -> None:
        """End the stream with the final text, or edit the message."""
        shown = None if self._covered else self._stream
        if shown is not None and self._message.message_id and markdown.startswith(shown.rstrip()):
            state, rest = self._status.after(self._place), markdown[len(shown) :]
            try:
                await self._message.end_stream(state, rest)
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
            await self._message.show(framed(markdown, head=texts.NO_THREAD))

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
                self._status.leave(self._place)
            else:
                self._status.end(self._place, session=self._session)
