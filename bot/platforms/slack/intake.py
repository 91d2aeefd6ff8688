"""Hears what people say on Slack: which messages are meant for the bot, and what they say."""

import asyncio
import logging
from dataclasses import dataclass

from bot.errors import BotError, DatabaseUnreachableError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.past import message_key
from bot.platforms.reception import NO_TEXT, TROUBLE, Lines
from bot.platforms.slack import speech
from bot.platforms.slack.answers import Asker
from bot.platforms.slack.attachments import Attachments
from bot.platforms.slack.clients import Installed
from bot.platforms.slack.people import Person, speaker_of
from bot.platforms.slack.visits import Desk
from bot.platforms.storing import AGAIN, GIVEN_UP, PAUSES, until_stored
from bot.platforms.wording import decision
from bot.values import Json, Place

log = logging.getLogger(__name__)

#: How long to wait for a message to be stored: see `ACK_SECONDS`.
STORED_SECONDS = 1.5


class NotHeardError(Exception):
    """It is not stored yet: Slack should not take it as delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message.

    Attributes:
        event: What Slack tells of it.
        addressed: It is for us without doubt.
    """

    event: Json
    person: Person
    place: Place
    installed: Installed
    addressed: bool

    @property
    def event_id(self) -> str:
        """The same for the message and for the mention in it."""
        return message_key(self.place.workspace, self.place.channel, self.place.message)

    @property
    def key(self) -> tuple[str, bool]:
        """What makes two of them the same: an edit may be what makes it one for us."""
        return self.event_id, self.addressed

    @property
    def text(self) -> str:
        """What was said to us."""
        return speech.spoken(str(self.event.get("text") or ""), self.installed.user)

    @property
    def line(self) -> tuple[Person, str]:
        """Among which messages its order counts; a command or an answer in a word has none."""
        alone = speech.waits_for_nothing(self.text)
        return self.person, self.event_id if alone else self.place.channel

    @property
    def asker(self) -> Asker:
        """Who said it, and where."""
        return Asker(place=self.place, account=self.person.account)


class Listener:
    """Takes messages, and hands on what is meant for the bot.

    What changes afterwards changes nothing: an edited message stays as it was heard, a deleted one
    is answered all the same.

    Args:
        desk: Who hears, and how to answer.
        attachments: Reads the files of messages.
        stored_seconds: How long Slack waits until it is told so.
        pauses: How long to wait before each further attempt at handing on what was said.
    """

    def __init__(
        self,
        desk: Desk,
        attachments: Attachments,
        *,
        stored_seconds: float = STORED_SECONDS,
        pauses: tuple[float, ...] = PAUSES,
    ) -> None:
        self._desk = desk
        self._attachments = attachments
        self._lines = Lines(desk.tasks, desk.reception)
        self._stored_seconds = stored_seconds
        self._pauses = pauses
        self._under_way: dict[tuple[str, bool], asyncio.Task[None]] = {}
        #: Where something could not be stored, and all that came after it waits.
        self._stuck: set[tuple[Person, str]] = set()

    async def take(self, body: Json) -> None:
        """Take a message or a mention, if it may be meant for the bot.

        It returns when that is stored, or when Slack would wait no longer; what is not stored by
        then goes on here.

        Raises:
            NotHeardError: It is not stored yet: Slack does well to deliver it again.
            DeliveryError: Likewise.
        """
        said = await self._said(body)
        if said is None:
            return
        task = self._under_way.get(said.key)
        if task is None:
            if not self._desk.reception.first(said.key):
                log.info("The %s was delivered again", said.event_id)
                return
            task = self._start(said)
        await asyncio.wait({task}, timeout=self._stored_seconds)
        if said.line in self._stuck:
            raise NotHeardError(said.event_id)

    def _start(self, said: Said) -> asyncio.Task[None]:
        task = self._lines.start(said.line, self._handle(said), name=said.event_id)
        self._under_way[said.key] = task
        task.add_done_callback(lambda _: self._under_way.pop(said.key, None))
        return task

    async def _said(self, body: Json) -> Said | None:
        """Return a message that may be meant for the bot."""
        event: Json = body["event"]
        if not speech.was_said_by_a_person(event):
            return None
        found = await self._desk.where(body)
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
            # The message itself comes too, and names the workspace, as their clicks do.
            return None
        place = person.place(str(event["channel"]), thread or ts, ts)
        return Said(
            event=event, person=person, place=place, installed=installed, addressed=addressed
        )

    async def _handle(self, said: Said) -> None:
        """Hand a message on, and answer it if there is something to say at once."""
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
        await self._desk.outlet.answers.give(said.asker, reply)
        if reply.answered:
            await self._settle(said, reply)

    async def _settle(self, said: Said, reply: CommandReply) -> None:
        """Show that a question was answered in words: with which, or else what came of it."""
        outcome = reply.text
        if reply.chosen:
            outcome = decision(await self._desk.names.of(said.person), reply.chosen)
        await self._desk.outlet.question_answered(reply.answered, said.place, outcome)

    async def _answer(self, said: Said) -> CommandReply | None:
        person, place = said.person, said.place
        if refusal := self._desk.reception.refusal(person, place.channel):
            tell = said.addressed and not refusal.silent
            if tell and self._desk.reception.may_tell(person.account, place.channel):
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
            user_name=await self._desk.names.of(person),
            place=place,
            text=text,
            files=files,
            quoted=quoted,
            only_mention=only_mention and not text,
        )
        return await self._hand_on(said, incoming)

    async def _hand_on(self, said: Said, incoming: Incoming) -> CommandReply | None:
        """Hand a message on to the core; while the database is out of reach, again."""

        async def waits(number: int, error: DatabaseUnreachableError) -> None:
            self._stuck.add(said.line)
            if number == 0 and said.addressed:
                await self._desk.outlet.answers.say(said.asker, f"{error} {AGAIN}")

        try:
            return await until_stored(
                lambda: self._hear(said, incoming), waits, pauses=self._pauses
            )
        except DatabaseUnreachableError as error:
            # Should Slack deliver it once more, it is new.
            self._desk.reception.forget(said.key)
            if not said.addressed:
                return None
            return CommandReply(text=GIVEN_UP.format(reason=error), failed=True)

    async def _hear(self, said: Said, incoming: Incoming) -> CommandReply | None:
        listened = said.addressed or await self._listens(incoming)
        return await self._desk.ears.hear(incoming) if listened else None

    async def _listens(self, incoming: Incoming) -> bool:
        try:
            return await self._desk.ears.listens(incoming.user, incoming.place)
        except DatabaseUnreachableError:
            raise
        except BotError as error:
            log.warning("Whether the %s is for us is unknown: %s", incoming.event_id, error)
            return False


def _known_by_organisation(person: Person, installed: Installed) -> bool:
    """Whether a stranger is named as one of another organisation, and not of which workspace."""
    return person.home.startswith("E") and person.home != installed.enterprise
