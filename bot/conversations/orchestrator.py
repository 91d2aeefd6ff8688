"""Receives messages and commands; begins one turn at a time per conversation."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from bot.agent.journal import only_step
from bot.agent.plain import plain, quotes
from bot.conversations import inbound, quoting
from bot.conversations.access import AccessSettings, check_may_talk, role_of
from bot.conversations.answers import Answers
from bot.conversations.command_lines import can_be_taken, command_in, greeting
from bot.conversations.durable_commands import DurableCommands
from bot.conversations.files import AttachmentSettings, not_read_yet, take
from bot.conversations.gaps import Gaps, quote
from bot.conversations.inbound import Event
from bot.engine import Engine
from bot.errors import NotAllowedError
from bot.events import TurnWaiting
from bot.platforms.base import CommandReply, Incoming, Overview
from bot.platforms.messages import Missed, Quoted
from bot.run_texts import status_text
from bot.subagents.active import ActiveRuns
from bot.subagents.requests import Caller
from bot.tasks import Tasks
from bot.values import Clock, Identity, Place, Role
from db import conversations, files, outbox, runs, steps, turns, users
from db.database import Database, Transaction

log = logging.getLogger(__name__)

MAX_MESSAGE = 50_000
#: The stored text of a message without words.
ONLY_A_MENTION = "(only a mention)"
#: Longest time for which a platform may still show that an answer is in progress.
LATELY = timedelta(hours=1)
#: Time for which a turn is held beyond the timeout for fetching its files.
HELD_BESIDE = timedelta(seconds=30)
#: A missed message waits while this process works on this many turns or more.
MISSED_TURNS = 4
#: Poll interval of such a wait, in seconds.
ROOM_SECONDS = 0.2
#: Most runs offered as choices, and number of the newest runs among which they are searched.
MOST_CHOICES, MOST_FOUND = 25, 100


@dataclass(frozen=True, slots=True)
class _Stored:
    """The ids of a stored message."""

    id: str
    conversation_id: str
    turn_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestrator:
    """Receives messages, commands and answers of all platforms alike: implements `Ears`.

    Attributes:
        attachments: The settings of attached files.
        turns: The turns at work in this process.
        gaps: Finds messages missed while the bot was not connected.
        acknowledge: Shows in a place that the message was received.
        answered: Removes that sign.
        tell: Sends a short text to one user in a place.
        listen_for: Time after the last message in which a thread needs no mention.
    """

    database: Database
    engine: Engine
    tasks: Tasks
    access: AccessSettings
    commands: DurableCommands
    answers: Answers
    turns: ActiveRuns
    attachments: AttachmentSettings
    gaps: Gaps
    acknowledge: Callable[[Place], None]
    answered: Callable[[Place], None]
    tell: Callable[[Place, Identity, str], None]
    listen_for: timedelta
    now: Clock

    async def receive(self, incoming: Incoming) -> CommandReply | None:
        """Receive a user's input: a message begins a turn, a command is answered at once."""
        if incoming.said_at is None:
            return await self._take(incoming)
        while len(self.turns.by_id) >= MISSED_TURNS:  # noqa: ASYNC110 - new messages first
            await asyncio.sleep(ROOM_SECONDS)
        reply = await self._take(incoming)
        if reply is None or not self.gaps.is_old(incoming.said_at):
            return reply
        return replace(reply, text=quote(incoming.text) + reply.text)

    async def _take(self, incoming: Incoming) -> CommandReply | None:
        if refusal := self._refusal(incoming.user):
            return refusal
        if len(incoming.text) > MAX_MESSAGE:
            return CommandReply(
                text=f"That is {len(incoming.text):,} characters; I read up to "
                f"{MAX_MESSAGE:,} at a time. Send it in parts.",
                failed=True,
            )
        text = plain(incoming.text, limit=None).strip()
        if not (text or incoming.files or incoming.quoted):
            if incoming.only_mention:
                await self._store(incoming, ONLY_A_MENTION, Role.USER, kind="greeting")
            return None
        if command := command_in(text):
            return await self._command(incoming, command)
        role = self._role(incoming.user, admin=incoming.admin)
        answered = await self.answers.in_words(incoming, role, text)
        if answered is not None:
            return answered
        if incoming.files:
            return await self._with_files(incoming, text, role)
        await self._store(incoming, text, role)
        return None

    async def _with_files(self, incoming: Incoming, text: str, role: Role) -> CommandReply | None:
        """Store a message, then fetch its files, and only then begin its turn.

        The turn is held for a limited time, so that it begins in any case, with or without files.
        """
        unread = not_read_yet(incoming.files)
        held = timedelta(seconds=self.attachments.files.fetch_seconds) + HELD_BESIDE
        message = await self._store(incoming, text, role, notes=unread.notes, held=held)
        if message is None:
            return None
        taken = await take(incoming.files, self.attachments.files, self.attachments.reserve)
        nothing = not (text or incoming.quoted or taken.files)
        turn_id = None
        async with self.database.transaction() as tx:
            if nothing:
                await turns.withdraw(tx, message.turn_id)
            else:
                quoted = quoting.stored([*incoming.quoted, *taken.notes])
                await conversations.requote(tx, message.id, quoted)
                await files.put(tx, message.id, taken.files, self.now())
                await turns.let_go(tx, message.turn_id)
            turn_id = await turns.claim_next(tx, message.conversation_id, self.now())
        if turn_id is not None:
            self._start(turn_id, incoming.place.platform)
        if nothing:
            self.answered(incoming.place)
            return CommandReply(text="\n".join(taken.refusals), failed=True)
        for untaken in taken.refusals:
            self.tell(incoming.place, incoming.user, untaken)
        return None

    def _refusal(self, user: Identity) -> CommandReply | None:
        """Return the refusal of a user whom the admins have blocked; `None` for other users."""
        try:
            check_may_talk(user, self.access)
        except NotAllowedError as error:
            return CommandReply(text=str(error), failed=True, refused=True)
        return None

    def _role(self, user: Identity, *, admin: bool) -> Role:
        """Return a user's role, by the platform or by the configuration."""
        return Role.ADMIN if admin else role_of(user, self.access)

    async def _command(self, incoming: Incoming, text: str) -> CommandReply | None:
        """Carry out a command, bypassing the queue of turns."""
        if text.lower() in {"/stop", "/stop turn"}:
            return await self.stop_turn(incoming.user, incoming.place, event_id=incoming.event_id)
        role = self._role(incoming.user, admin=incoming.admin)
        return await self.commands.carry_out(incoming, text, role)

    async def _store(
        self,
        incoming: Incoming,
        text: str,
        role: Role,
        *,
        notes: tuple[Quoted, ...] = (),
        held: timedelta | None = None,
        kind: str = "message",
    ) -> "_Stored | None":
        """Store a message with its turn, and begin the turn if the conversation is free.

        Args:
            incoming: The message.
            text: The text to store.
            role: The role of the user.
            notes: Notes about the files of the message.
            held: Longest time that the turn waits to be released; `None` for no wait.
            kind: `greeting` for a turn that is answered without a model.

        Returns:
            The stored ids; `None` if the message was stored before.
        """
        now = self.now()

        async def write(tx: Transaction) -> tuple[_Stored, str | None]:
            await users.ensure_user(tx, incoming.user, incoming.user_name, now)
            conversation_id = await conversations.find_or_open(
                tx, incoming.user, incoming.place, now
            )
            message_id = await conversations.say(
                tx,
                conversation_id,
                role="user",
                text=text,
                now=now,
                quoted=quoting.stored([*incoming.quoted, *notes]),
                foreign=quotes(text),
            )
            added = await turns.add(
                tx,
                conversation_id,
                user=incoming.user,
                place=incoming.place,
                message_id=message_id,
                role=role,
                kind=kind,
                now=now,
            )
            if kind == "greeting":
                answer = only_step(greeting(incoming.place.platform))
                await steps.begin_with(tx, added, answer, now)
            if incoming.said_at is not None:
                await turns.keep_said_at(tx, added, incoming.said_at)
            if held is not None:
                await turns.hold(tx, added, now + held)
            turn_id = await turns.claim_next(tx, conversation_id, now)
            return _Stored(message_id, conversation_id, added), turn_id

        written = await inbound.store(self.database, Event.of(incoming), write, self.now)
        if written is None:
            return None
        stored, turn_id = written
        self.acknowledge(incoming.place)
        if turn_id is not None:
            self._start(turn_id, incoming.place.platform)
        return stored

    def _start(self, turn_id: str, platform: str) -> None:
        self.tasks.start(self.engine.start("turn", turn_id, platform), name=f"start turn {turn_id}")

    def on_turn_waiting(self, event: TurnWaiting) -> None:
        """Begin the next turn of a conversation, if one is queued and none is in progress."""
        work = self.next_turn(event.conversation_id, event.platform)
        self.tasks.start(work, name=f"next turn of {event.conversation_id}")

    async def next_turn(self, conversation_id: str, platform: str) -> None:
        """Claim the next turn of a conversation and start it."""
        async with self.database.transaction() as tx:
            turn_id = await turns.claim_next(tx, conversation_id, self.now())
        if turn_id is not None:
            await self.engine.start("turn", turn_id, platform)

    async def stop_turn(
        self, user: Identity, place: Place, *, event_id: str = ""
    ) -> CommandReply | None:
        """Stop this user's turn that is in progress in this place or in a thread of it."""
        if refusal := self._refusal(user):
            return refusal

        async def request(tx: Transaction) -> str:
            active = await turns.active_of(tx, user.key, place)
            asked = active and await turns.request_stop(tx, active.id, self.now())
            return active.id if active and asked else ""

        event = Event(place.platform, event_id) if event_id else None
        turn_id = await inbound.store(self.database, event, request, self.now)
        if turn_id is None:
            return None
        if not turn_id:
            return CommandReply(text="Nothing is being answered. `/subagents stop ID` stops a run.")
        self.turns.stop(turn_id)
        return CommandReply(text="Stopped. Background runs go on; `/subagents stop all` ends them.")

    async def missed(self, platform: str, listener: str) -> Missed | None:
        """Return the gap and the places to read; `None` if no gap is known."""
        return await self.gaps.missed(platform, listener)

    async def listening(self, listener: str) -> None:
        """Record that a connection receives messages of its platform now."""
        await self.gaps.listening(listener)

    async def idle_places(self, platform: str) -> list[Place]:
        """Return the places with recent turns, all of which have ended."""
        async with self.database.snapshot() as tx:
            return await turns.idle_places(tx, platform, since=self.now() - LATELY)

    async def listens(self, user: Identity, place: Place) -> bool:
        """Return True if this user's messages in this place need no mention of the bot.

        That is so after a recent message of the conversation, and while a run asks the user.
        """
        if self._refusal(user):
            return False
        async with self.database.snapshot() as tx:
            last = await conversations.last_word(tx, user, place)
        if last is not None and self.now() - last <= self.listen_for:
            return True
        return bool(await self.answers.open_in(user, place))

    async def answer(
        self, user: Identity, confirmation_id: str, *, choice: str, admin: bool = False
    ) -> CommandReply:
        """Store the answer of the owner or of an admin to a question."""
        if refusal := self._refusal(user):
            return refusal
        role = self._role(user, admin=admin)
        return await self.answers.answer(user, role, confirmation_id, choice=choice)

    async def overview(self, user: Identity) -> Overview:
        """Return a user's runs, usage and agents.

        Raises:
            NotAllowedError: The admins have blocked this user.
        """
        check_may_talk(user, self.access)
        place = Place(user.platform)
        caller = Caller(user=user, role=Role.USER, place=place, typed=True)
        return await self.commands.commands.overview(caller)

    async def run_choices(
        self, user: Identity, typed: str, *, action: str = ""
    ) -> list[tuple[str, str]]:
        """Return (id, label) of this user's runs that match the typed text, newest first."""
        if self._refusal(user):
            return []
        async with self.database.snapshot() as tx:
            if typed.strip():
                found = await runs.find(
                    tx, typed.strip(), user_id=user.key, limit=MOST_FOUND, all_that_fit=True
                )
            else:
                found = await runs.newest(tx, user.key, limit=MOST_FOUND)
            kept = await outbox.blocked(tx, user.key, limit=MOST_FOUND)
        undelivered = {item.run_id for item in kept}
        return [
            (run.id, f"{run.label} ({status_text(run.status, degraded=run.degraded).words})")
            for run in found
            if can_be_taken(action, run, undelivered=run.id in undelivered)
        ][:MOST_CHOICES]
