"""Dispatches the input of users on all platforms: commands, answers and messages."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal, InvalidOperation

from bot.agent.plain import plain, quotes
from bot.agent.sanitizer import one_line
from bot.agent.settings import AgentSettings
from bot.conversations.access import AccessSettings, is_blocked, is_private, spelled
from bot.conversations.admin_notices import PREFIX, AdminNotices
from bot.conversations.answers import Answers
from bot.conversations.command_lines import CommandGroup, CommandTable
from bot.conversations.commands import ChatCommand
from bot.conversations.deciding import GONE_REPLY
from bot.conversations.durable_commands import DurableCommands
from bot.conversations.inbound import MayAnswerError, TurnQueue, authorise
from bot.conversations.rights import RightsDirectory
from bot.conversations.settings import CatchUpSettings, ConversationSettings
from bot.conversations.turn_reply import quote
from bot.errors import NotAllowedError
from bot.events import FilesDeleted
from bot.platforms.base import CommandReply, Incoming, Overview
from bot.platforms.messages import Missed, PastMessage
from bot.platforms.messaging.texts import short_answer
from bot.platforms.reading import Membership
from bot.run_texts import status_text
from bot.subagents.active import ActiveRuns
from bot.subagents.requests import Caller
from bot.values import Clock, Identity, Live, Place, Role
from db import conversations, edits, outbox, runs, shared_threads, turns, workers
from db.database import Database

MAX_MESSAGE = 50_000
#: Overlap with the time before a gap, for events in flight and for clocks that differ.
MARGIN = timedelta(minutes=2)
#: A message of one of these words stops the answer in progress.
STOP_WORDS = frozenset({"stop", "halt", "cancel"})
#: Longest time for which a platform may still show that an answer is in progress.
LATELY = timedelta(hours=1)
#: A missed message waits while this process works on this many turns or more.
MISSED_TURNS = 4
#: Poll interval of such a wait, in seconds.
ROOM_SECONDS = 0.2
#: Most runs offered as choices, and number of the newest runs among which they are searched.
MOST_CHOICES, MOST_FOUND = 25, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestrator:
    """Dispatches messages, commands and answers of all platforms: the `InboundHandler`.

    Attributes:
        turns: The turns at work in this process.
        directory: Finds the roles and rights of users.
        agent: The settings of the main agent.
    """

    database: Database
    access: Live[AccessSettings]
    commands: DurableCommands
    answers: Answers
    notices: AdminNotices
    queue: TurnQueue
    turns: ActiveRuns
    catch_up: Live[CatchUpSettings]
    agent: Live[AgentSettings]
    sharing: Live[ConversationSettings]
    now: Clock
    directory: RightsDirectory

    @property
    def command_table(self) -> CommandTable[ChatCommand]:
        """All commands."""
        return self.commands.runner.table()

    async def receive(self, incoming: Incoming) -> CommandReply | None:
        """Receive a user's input: a message begins a turn, a command is answered at once."""
        incoming = replace(incoming, text=plain(incoming.text, limit=None).strip())
        try:
            if incoming.groups is not None:
                membership = Membership(groups=incoming.groups)
                self.directory.memberships.note(incoming.user, incoming.place, membership)
            role = await self._authorise(incoming.user, incoming.place, admin=incoming.admin)
        except NotAllowedError as error:
            return _refused(error)
        if incoming.said_at is None:
            return await self._dispatch(incoming, role)
        while len(self.turns.by_id) >= MISSED_TURNS:  # noqa: ASYNC110 - new messages first
            await asyncio.sleep(ROOM_SECONDS)
        reply = await self._dispatch(incoming, role)
        quoted_from = timedelta(minutes=self.catch_up().quote_after_minutes)
        if reply is None or self.now() - incoming.said_at <= quoted_from:
            return reply
        return replace(reply, text=quote(incoming.text) + reply.text)

    async def _authorise(self, user: Identity, place: Place, *, admin: bool) -> Role:
        """Return the rights of a user who asks something in a place.

        Raises:
            NotAllowedError: The admins have blocked this user, or the user's role does not admit
                the user here.
        """
        access = self.access()
        role = authorise(user, access, place, admin=admin)
        if role is Role.USER and await self.directory.is_among(
            access.admins_at(place), user, place
        ):
            role = Role.ADMIN
        if role is not Role.OPERATOR:
            await self.directory.check(user, place)
        return role

    async def _dispatch(self, incoming: Incoming, role: Role) -> CommandReply | None:
        """Pass a command, an answer or a message on; each is stored with its effect."""
        text = incoming.text
        if len(text) > MAX_MESSAGE:
            return CommandReply(
                text=f"That is {len(text):,} characters; I read up to {MAX_MESSAGE:,} at a time. "
                "Send it in parts.",
                failed=True,
            )
        if not (text or incoming.files or incoming.quoted):
            greets = incoming.only_mention
            return await self.queue.put(incoming, role, kind="greeting") if greets else None
        typed = self.command_table.find(text)
        # In a message, a command with further words is a sentence about it.
        if typed is not None and (typed.exact or not incoming.place.message):
            if typed.command is not None and typed.command.name == "ask" and typed.words:
                refused = await self.queue.put(replace(incoming, text=typed.words), role)
                place = incoming.place
                if refused is not None or place.message or place.platform == "terminal":
                    return refused
                if not is_private(place):
                    # Nobody else has read the question.
                    head = f"{one_line(incoming.user_name, 60)} asked:"
                    question = f"{head}\n\n{quote(typed.words)}".strip()
                    self.queue.notices.say(place, incoming.user, question)
                return CommandReply(text="I answer here.")
            return await self.commands.carry_out(incoming, text, role)
        if text.casefold().strip(" .!") in STOP_WORDS:
            working = await self.database.read(turns.active_of, None, incoming.place)
            if working is not None:
                stop = self.command_table.typed("stop", incoming.place.platform)
                return await self.commands.carry_out(incoming, stop, role)
        if short_answer(text) is None:
            with suppress(MayAnswerError):
                return await self.queue.put(incoming, role, unless_asked=True)
        answered = await self.answers.in_words(incoming, role, text)
        return await self.queue.put(incoming, role) if answered is None else answered

    async def answer(
        self,
        user: Identity,
        confirmation_id: str,
        *,
        choice: str,
        place: Place | None = None,
        admin: bool = False,
    ) -> CommandReply:
        """Store the answer of the owner or of an admin to a question."""
        place = place or Place(user.platform)
        try:
            role = await self._authorise(user, place, admin=admin)
        except NotAllowedError as error:
            return _refused(error)
        answerer = Caller.of_user(user, role, place)
        if confirmation_id.startswith(PREFIX):
            carry_out = self.commands.carry_out
            return await self.notices.press(
                answerer, confirmation_id, choice=choice, carry_out=carry_out
            )
        reply = await self.answers.answer(answerer, confirmation_id, choice=choice)
        return reply or GONE_REPLY

    # -- queries of the platforms ----------------------------------------------------------------

    async def missed(self, platform: str, listener: str) -> Missed | None:
        """Return the gap and the places to read; `None` at the first start or if switched off."""
        settings, now = self.catch_up(), self.now()
        async with self.database.snapshot() as tx:
            heard_at = await workers.last_event_at(tx, listener)
            places = await conversations.places(
                tx, platform, since=now - timedelta(days=settings.days)
            )
        if heard_at is None:
            # At the very first start nothing was missed; messages from now on may be.
            await self.listening(listener)
            return None
        if not settings.enabled:
            return None
        return Missed(
            since=max(heard_at - MARGIN, now - timedelta(hours=settings.hours)),
            heard_at=heard_at,
            places=tuple(places),
            most_places=settings.places,
            most_messages=settings.messages,
        )

    async def listening(self, listener: str) -> None:
        """Record that a connection receives messages of its platform now."""
        await self.database.write(workers.mark_listener, listener, self.now())

    async def idle_places(self, platform: str) -> list[Place]:
        """Return the places with recent turns, all of which have ended."""
        return await self.database.read(turns.idle_places, platform, since=self.now() - LATELY)

    async def listens(self, user: Identity, place: Place) -> bool:
        """Return True if this user's messages in this place need no mention of the bot.

        The settings of a channel may say so for all messages, or for none but answers to the
        questions of runs. Else it is so after a recent message of the conversation, while it is
        being answered, and while a run asks the user. Where several people have spoken, it is so
        for a short time after a turn of this user, until another person speaks.
        """
        if is_blocked(user, self.access()):
            return False
        rule = self.sharing().answers_at(place)
        if rule == "all":
            return True
        last, window = None, timedelta(minutes=self.agent().listen_minutes)
        async with self.database.snapshot() as tx:
            if rule == "mentions":
                pass
            elif not self.sharing().at(place).shared:
                last = await conversations.last_word(tx, user, place)
            elif await turns.active_of(tx, user.key, place) is not None:
                return True
            elif (course := await shared_threads.course(tx, user, place)) is not None:
                if not course.others:
                    last = course.last_at
                elif not course.interrupted:
                    last, window = course.turn_at, timedelta(minutes=self.sharing().listen_minutes)
        if last is not None and self.now() - last <= window:
            return True
        return bool(await self.answers.open_in(user, place))

    def answers_bot(self, user: Identity) -> bool:
        """Return True if the mentions of another bot are answered."""
        return spelled(user) in self.access().bots

    def hears_all(self, place: Place) -> bool:
        """Return True if every message of a channel is for the bot."""
        return self.sharing().answers_at(place) == "all"

    async def overhear(self, incoming: Incoming, *, by_bot: bool = False) -> bool:
        """Store a message that is not for the bot, as context; return True if it is stored."""
        heard = replace(incoming, text=_stored_text(incoming.text))
        return await self.queue.overhear(heard, by_bot=by_bot)

    async def changed(self, place: Place, text: str | None) -> None:
        """Store the edited text of a message, or delete the message for `None`.

        A turn that has begun continues with the text that it has read. One that has not begun is
        withdrawn with its message. Where no context is wanted, no edit brings words of others.
        """
        new = None if text is None else _stored_text(text)
        deleted, now = [], self.now()
        async with self.database.transaction() as tx:
            for copy in await edits.copies(tx, place):
                if new is None:
                    files = await edits.delete(tx, copy, now)
                    deleted.append(FilesDeleted(files=files, files_of=copy.files_of))
                elif self.sharing().reads_above or not copy.overheard:
                    await edits.rewrite(tx, copy, new, quotes=quotes(new), now=now)
        for event in deleted:
            if event.files:
                self.queue.events.publish(event)

    async def compare(self, place: Place, messages: Sequence[PastMessage]) -> None:
        """Follow the edits and deletions that the newest messages of a place show.

        The ids of messages rise with the time on every platform, so a stored message that is
        missing between two others is deleted there.
        """
        found = {each.place.message: each for each in messages}
        numbers = [number for each in found if (number := _number(each)) is not None]
        if not numbers:
            return
        oldest, newest = min(numbers), max(numbers)
        since = min(each.sent_at for each in messages) - MARGIN
        for each in await self.database.read(edits.held, place, since=since):
            at, number = replace(place, message=each.reference), _number(each.reference)
            there = found.get(each.reference)
            if there is None:
                # The message that opened a thread may stand outside of it.
                opening = each.reference == place.thread
                if number is not None and oldest < number < newest and not opening:
                    await self.changed(at, None)
            elif there.edited and _stored_text(there.text) not in {"", each.text}:
                await self.changed(at, there.text)

    async def overview(self, user: Identity) -> Overview:
        """Return a user's runs, usage and agents.

        Raises:
            NotAllowedError: The admins have blocked this user.
        """
        place = Place(user.platform)
        authorise(user, self.access(), place)
        caller = Caller(user=user, role=Role.USER, place=place, typed=True)
        return await self.commands.runner.overview(caller)

    def role_of(self, user: Identity, place: Place) -> Role:
        """Return the rights of a user in a place, which decide the commands that are offered."""
        try:
            return authorise(user, self.access(), place)
        except NotAllowedError:
            return Role.USER

    async def run_choices(
        self, user: Identity, typed: str, *, action: str = ""
    ) -> list[tuple[str, str]]:
        """Return (id, label) of this user's runs that match the typed text, newest first."""
        if is_blocked(user, self.access()):
            return []
        async with self.database.snapshot() as tx:
            if typed.strip():
                found = await runs.find(
                    tx, typed.strip(), user_id=user.key, limit=MOST_FOUND, all_that_fit=True
                )
            else:
                found = await runs.newest(tx, user.key, limit=MOST_FOUND)
            kept = await outbox.blocked(tx, user.key, limit=MOST_FOUND)
        command = self.command_table.get(CommandGroup.RUNS, action)
        undelivered = {item.run_id for item in kept}
        return [
            (run.id, f"{run.label} ({status_text(run.status, degraded=run.degraded).words})")
            for run in found
            if command is None or command.fits(run.status, run.id in undelivered)
        ][:MOST_CHOICES]


def _stored_text(text: str) -> str:
    """Return the text of a message that is not answered, as it is stored."""
    return plain(text, limit=None).strip()[:MAX_MESSAGE]


def _number(message_id: str) -> Decimal | None:
    """Return the id of a message as a number; `None` for another platform's."""
    try:
        number = Decimal(message_id)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _refused(error: NotAllowedError) -> CommandReply:
    return CommandReply(text=str(error), failed=True, refused=True)
