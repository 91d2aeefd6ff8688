"""Receives messages from Slack, selects those for the bot and passes them to the core."""

import asyncio
import logging
from dataclasses import dataclass

from bot.errors import BotError, DatabaseUnreachableError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.messages import message_key
from bot.platforms.messaging.intake import (
    AGAIN,
    GIVEN_UP,
    NO_TEXT,
    STORE_PAUSES,
    TROUBLE,
    KeyedQueue,
    retry_until_stored,
)
from bot.platforms.messaging.texts import decision
from bot.platforms.slack import speech
from bot.platforms.slack.answers import Recipient
from bot.platforms.slack.attachments import Attachments
from bot.platforms.slack.clients import Installed
from bot.platforms.slack.people import SlackUser, speaker_of
from bot.platforms.slack.visits import SlackReceiver
from bot.values import Json, Place

log = logging.getLogger(__name__)

#: Timeout for the storing of a message, in seconds: see `ACK_SECONDS`.
STORED_SECONDS = 1.5


class NotStoredError(Exception):
    """Raised for a message that is not stored yet, so that Slack delivers it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A received message.

    Attributes:
        event: The event of Slack's payload.
        addressed: The message is certainly for the bot.
    """

    event: Json
    person: SlackUser
    place: Place
    installed: Installed
    addressed: bool

    @property
    def event_id(self) -> str:
        """The event id, the same for the message event and its mention event."""
        return message_key(self.place.workspace, self.place.channel, self.place.message)

    @property
    def key(self) -> tuple[str, bool]:
        """The de-duplication key, with `addressed` since an edit can add a mention of the bot."""
        return self.event_id, self.addressed

    @property
    def text(self) -> str:
        """The text without Slack's markup and without mentions of the bot at both ends."""
        return speech.spoken(str(self.event.get("text") or ""), self.installed.user)

    @property
    def line(self) -> tuple[SlackUser, str]:
        """The queue of the message: user and channel; commands and one-word answers run alone."""
        alone = speech.bypasses_queue(self.text)
        return self.person, self.event_id if alone else self.place.channel

    @property
    def recipient(self) -> Recipient:
        """The author, as the recipient of answers."""
        return Recipient(place=self.place, account=self.person.account)


class Listener:
    """Receives messages and passes those for the bot to the core.

    Later changes are ignored: the first version of an edited message counts, and a deleted message
    is answered.

    Args:
        receiver: The shared dependencies of the handlers.
        attachments: Reads the files of messages.
        stored_seconds: Longest wait for the storing of a message before Slack is answered.
        pauses: Backoff before each further attempt to store a message, in seconds.
    """

    def __init__(
        self,
        receiver: SlackReceiver,
        attachments: Attachments,
        *,
        stored_seconds: float = STORED_SECONDS,
        pauses: tuple[float, ...] = STORE_PAUSES,
    ) -> None:
        self._receiver = receiver
        self._attachments = attachments
        self._lines = KeyedQueue(receiver.tasks, receiver.reception)
        self._stored_seconds = stored_seconds
        self._pauses = pauses
        self._under_way: dict[tuple[str, bool], asyncio.Task[None]] = {}
        #: Queues with a message that could not be stored yet; all later messages wait behind it.
        self._stuck: set[tuple[SlackUser, str]] = set()

    async def take(self, body: Json) -> None:
        """Handle a message or a mention, if it may be for the bot.

        Returns when the message is handled or `stored_seconds` have passed. The handling then
        continues in the background.

        Raises:
            NotHeardError: The database is unreachable, so Slack should deliver the message again.
            DeliveryError: The workspace of the message cannot be determined now.
        """
        said = await self._said(body)
        if said is None:
            return
        task = self._under_way.get(said.key)
        if task is None:
            if not self._receiver.reception.first(said.key):
                log.info("The %s was delivered again", said.event_id)
                return
            task = self._start(said)
        await asyncio.wait({task}, timeout=self._stored_seconds)
        if said.line in self._stuck:
            raise NotStoredError(said.event_id)

    def _start(self, said: Said) -> asyncio.Task[None]:
        task = self._lines.start(said.line, self._handle(said), name=said.event_id)
        self._under_way[said.key] = task
        task.add_done_callback(lambda _: self._under_way.pop(said.key, None))
        return task

    async def _said(self, body: Json) -> Said | None:
        """Return the message of a payload; `None` if the message cannot be for the bot."""
        event: Json = body["event"]
        if not speech.is_from_user(event):
            return None
        found = await self._receiver.where(body)
        if found is None:
            log.warning("A message came from a workspace where the bot is not")
            return None
        workspace, installed = found
        text, ts = str(event.get("text") or ""), str(event["ts"])
        thread = str(event.get("thread_ts") or "")
        direct = event.get("channel_type") == "im" or str(event["channel"]).startswith("D")
        addressed = (
            direct
            or event["type"] == "app_mention"
            or speech.mentions(text, installed.user)
            or speech.is_for_us(text)
        )
        if not addressed and (not thread or speech.begins_with_another(text, installed.user)):
            return None
        person = speaker_of(event, body, workspace, installed.enterprise)
        if event["type"] == "app_mention" and _known_by_organisation(person, installed):
            # The message event arrives too and names the workspace, as the user's clicks do.
            return None
        place = person.place(str(event["channel"]), thread or ts, ts)
        return Said(
            event=event, person=person, place=place, installed=installed, addressed=addressed
        )

    async def _handle(self, said: Said) -> None:
        """Pass a message to the core and send its immediate answer, if any."""
        try:
            reply = await self._answer(said)
        except BotError as error:
            reply = CommandReply(text=str(error), failed=True)
        except Exception:
            log.exception("The %s could not be handled", said.event_id)
            reply = CommandReply(text=TROUBLE, failed=True) if said.addressed else None
        finally:
            self._stuck.discard(said.line)
        if reply is None:
            return
        await self._receiver.outlet.answers.give(said.recipient, reply)
        if reply.answered:
            await self._settle(said, reply)

    async def _settle(self, said: Said, reply: CommandReply) -> None:
        """Show the answer, or else the outcome, of a question that a message answered."""
        outcome = reply.text
        if reply.chosen:
            outcome = decision(await self._receiver.names.of(said.person), reply.chosen)
        await self._receiver.outlet.question_answered(reply.answered, said.place, outcome)

    async def _answer(self, said: Said) -> CommandReply | None:
        person, place = said.person, said.place
        if refusal := self._receiver.reception.refusal(person, place.channel):
            tell = said.addressed and not refusal.silent
            if tell and self._receiver.reception.may_notify(person.account, place.channel):
                return CommandReply(text=refusal.text, failed=True)
            return None
        text = said.text
        files = self._attachments.of(said.event.get("files") or (), place.workspace)
        quoted = speech.quoted_in(said.event, said.installed.user)
        only_mention = speech.mentions(str(said.event.get("text") or ""), said.installed.user)
        if not (text or files or quoted or (only_mention and said.addressed)):
            return CommandReply(text=NO_TEXT, failed=True) if said.addressed else None
        incoming = Incoming(
            event_id=said.event_id,
            user=person.identity,
            user_name=await self._receiver.names.of(person),
            place=place,
            text=text,
            files=files,
            quoted=quoted,
            only_mention=only_mention and not text,
        )
        return await self._hand_on(said, incoming)

    async def _hand_on(self, said: Said, incoming: Incoming) -> CommandReply | None:
        """Pass a message to the core, with retries while the database is unreachable."""

        async def waits(number: int, error: DatabaseUnreachableError) -> None:
            self._stuck.add(said.line)
            if number == 0 and said.addressed:
                await self._receiver.outlet.answers.say(said.recipient, f"{error} {AGAIN}")

        try:
            return await retry_until_stored(
                lambda: self._hear(said, incoming), waits, pauses=self._pauses
            )
        except DatabaseUnreachableError as error:
            # A later delivery of the message counts as new.
            self._receiver.reception.forget(said.key)
            if not said.addressed:
                return None
            return CommandReply(text=GIVEN_UP.format(reason=error), failed=True)

    async def _hear(self, said: Said, incoming: Incoming) -> CommandReply | None:
        listened = said.addressed or await self._listens(incoming)
        return await self._receiver.inbound.receive(incoming) if listened else None

    async def _listens(self, incoming: Incoming) -> bool:
        try:
            return await self._receiver.inbound.listens(incoming.user, incoming.place)
        except DatabaseUnreachableError:
            raise
        except BotError as error:
            log.warning("Whether the %s is for us is unknown: %s", incoming.event_id, error)
            return False


def _known_by_organisation(person: SlackUser, installed: Installed) -> bool:
    """Return True if the payload names another organisation, not a workspace, as the home."""
    return person.home.startswith("E") and person.home != installed.enterprise
