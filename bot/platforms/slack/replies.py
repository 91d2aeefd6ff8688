"""Shows a reply during its generation: as a stream if Slack supports it, else by edits."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from bot.errors import DeliveryError
from bot.platforms.base import Delivered, OnBegun
from bot.platforms.messaging.pacing import Pace, Paced, Spacing
from bot.platforms.messaging.replies import ResumedText
from bot.platforms.messaging.splitting import MessageParts
from bot.platforms.slack import blocks
from bot.platforms.slack.abilities import Abilities, Ability
from bot.platforms.slack.budget import BudgetedPace, RequestBudget, WorkspaceBudgets
from bot.platforms.slack.live import LiveMessage
from bot.platforms.slack.problems import RefusedError
from bot.platforms.slack.sending import Draft, Sender, made_harmless
from bot.platforms.slack.status import PROCESSING, Status
from bot.platforms.slack.texts import (
    MOST_CHARACTERS,
    NO_ANSWER,
    NO_THREAD,
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
#: Timeout of a request in flight when a reply is abandoned, in seconds.
LEAVE_SECONDS = 1.0
FILE_NAME = "answer.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The shared dependencies of replies.

    Attributes:
        edit_seconds: The least time between two edits of one message.
        grow_seconds: The least time between two additions to one stream.
    """

    sender: Sender
    status: Status
    abilities: Abilities
    budgets: WorkspaceBudgets
    tasks: Tasks
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


class SlackReply:
    """One reply on Slack: implements `ReplyStream`."""

    def __init__(
        self, means: Means, place: Place, owner: Identity, *, message_id: str, begun: OnBegun
    ) -> None:
        self._means = means
        self._place = place
        self._owner = owner
        self._message = LiveMessage(means.sender, place, message_id=message_id, begun=begun)
        streams = place.thread and not message_id and means.abilities.has(Ability.STREAM, place)
        self._stream = _Stream() if streams else None
        self._before = ResumedText(self._message.text if message_id else None)
        self._shown = ""
        self._refused = False
        self._working = True
        self._pace = self._rhythm()
        self._paced = Paced(
            self._send, self._pace, means.tasks, name="move a reply", failed=self._failed
        )
        means.status.begin(place)

    def _rhythm(self) -> Pace:
        means, workspace = self._means, self._place.workspace

        def growths() -> RequestBudget | None:
            begun = self._stream is not None and self._stream.begun
            return means.budgets.growths(workspace) if begun else None

        def edits() -> RequestBudget | None:
            return means.budgets.edits(workspace) if self._message.message_id else None

        return _Rhythm(
            growing=BudgetedPace(Spacing(means.grow_seconds), growths),
            editing=BudgetedPace(Spacing(means.edit_seconds), edits),
            grows=lambda: self._stream is not None,
        )

    # -- growing ---------------------------------------------------------------------------------

    def update(self, text: str) -> None:
        """Show the whole text so far; the newest text wins, at Slack's rate. Never waits."""
        if not self._refused:
            self._paced.put(text)

    async def _send(self, text: str) -> None:
        if self._stream is not None and await self._grow(self._stream, text):
            return
        markdown = newest(await made_harmless(whole_words(text)))
        if not markdown or markdown == self._shown:
            return
        if not await self._before.is_longer_than(markdown):
            await self._message.show(Draft(markdown=markdown))
            self._shown = markdown

    async def _grow(self, stream: _Stream, text: str) -> bool:
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
        sender, place = self._means.sender, self._place
        if stream.begun:
            await sender.append_stream(place, self._message.message_id, more)
            return
        if not self._means.budgets.streams(place.workspace).take_now():
            raise DeliveryError("Too many answers begin at once.")
        try:
            message_id = await sender.start_stream(place, self._owner, more)
        except RefusedError as error:
            self._means.abilities.lost(Ability.STREAM, place, error)
            raise
        stream.begun = True
        self._message.is_there(message_id)

    async def _leave_stream(self) -> None:
        """End the stream, so that the message can be edited from now on."""
        stream, self._stream = self._stream, None
        if stream is None or not stream.begun:
            return
        try:
            await self._means.sender.stop_stream(
                self._place, self._message.message_id, session=PROCESSING
            )
        except DeliveryError as error:
            log.debug("A stream had ended before: %s", error)

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, DeliveryError):
            log.error("A reply could not be moved", exc_info=error)
            return
        log.info("A reply was not moved: %s", error)
        # A permanent refusal would repeat: only the final text is attempted again.
        self._refused = error.permanent

    # -- ending ----------------------------------------------------------------------------------

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        """Show the complete final text, in as many messages as necessary.

        Raises:
            DeliveryError: The text could not be delivered.
        """
        session = ""
        try:
            await self._paced.close()
            parts = parts_of(await made_harmless(text), name=FILE_NAME, empty=NO_ANSWER)
            session = await self._end_stream(parts.texts[0])
            if not session:
                await self._edit(parts)
            rest = await self._rest(parts)
            return Delivered((self._message.message_id, *rest))
        finally:
            self._stop_working(session=session)

    async def _end_stream(self, first: str) -> str:
        """End the stream with a text; return the new session state, or "" if an edit is needed."""
        stream = self._stream
        if stream is None or not stream.begun:
            self._stream = None
            return ""
        if first.startswith(stream.shown.rstrip()):
            state = self._means.status.after(self._place)
            try:
                await self._means.sender.stop_stream(
                    self._place,
                    self._message.message_id,
                    first[len(stream.shown) :],
                    session=state,
                )
            except DeliveryError as error:
                log.info("The end of a reply is an edit: %s", error)
            else:
                return state
        await self._leave_stream()
        return ""

    async def _edit(self, parts: MessageParts) -> None:
        first = parts.texts[0]
        if first == self._shown:
            return
        await self._pace.turn(final=True)
        try:
            await self._message.show(Draft(markdown=first), final=True)
        except RefusedError as error:
            if not error.thread_gone or not self._message.leave_thread():
                raise
            said = blocks.said(head=NO_THREAD, markdown=first, tail="")
            draft = Draft(blocks=said, mrkdwn=f"{NO_THREAD}\n{first}")
            await self._message.show(draft)

    async def _rest(self, parts: MessageParts) -> tuple[str, ...]:
        if len(parts.texts) == 1:
            return ()
        return await self._means.sender.post_rest(self._message.place, parts)

    async def abandon(self) -> None:
        """Leave the message unchanged: this or another process will resume the turn."""
        if self._working:
            self._working = False
            self._means.status.leave(self._place)
        await self._paced.close(seconds=LEAVE_SECONDS)
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._leave_stream()
        except TimeoutError:
            log.info("A stream could not be ended in time")

    def _stop_working(self, *, session: str) -> None:
        if self._working:
            self._working = False
            self._means.status.end(self._place, session=session)
