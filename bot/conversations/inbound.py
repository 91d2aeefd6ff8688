"""The stages of the inbound path that authorise a message and store it with its effect.

The adapter of a platform makes one `Incoming` of an event. `Orchestrator.receive` normalises it,
passes it through these stages, and dispatches it. Each kind of message (command, answer, message)
is stored by `store` together with what it changes, and only then has an effect outside of the
database.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import NamedTuple, TypeVar

from bot.agent.journal import only_step
from bot.agent.plain import quotes
from bot.conversations.access import AccessSettings, is_private, spelled
from bot.conversations.chat_commands import greeting
from bot.conversations.command_table import COMMANDS
from bot.conversations.files import AttachmentSettings, not_read_yet, take
from bot.conversations.model_texts import stored_quotes
from bot.conversations.notices import Notices
from bot.conversations.pause_lines import LEAVING, kept_text
from bot.conversations.placing import begun, conversation_of, is_current, put_overheard
from bot.conversations.settings import ConversationSettings
from bot.engine import Engine
from bot.errors import NotAllowedError
from bot.events import EventBus, FilesAttached, TurnWaiting
from bot.platforms.base import CommandReply, Incoming
from bot.tasks import Tasks
from bot.values import Clock, Identity, Live, Place, Role
from db import conversations, pauses, run_questions, steps, turn_inbox, turns, users
from db import files as stored_files
from db.database import Database, Transaction
from db.pauses import Pause
from db.turns import Turn

log = logging.getLogger(__name__)

#: The stored text of a message without words.
ONLY_A_MENTION = "(only a mention)"
#: Time for which a turn is held beyond the timeout for fetching its files.
HELD_BESIDE = timedelta(seconds=30)

Result = TypeVar("Result")


def authorise(user: Identity, access: AccessSettings, place: Place, *, admin: bool = False) -> Role:
    """Return the role of a user, by the account and never by a name that can be changed.

    Args:
        user: The user.
        access: Lists the admins and the blocked users.
        place: The place in which the user is.
        admin: The platform makes this user an admin of the server or workspace of the place.

    Raises:
        NotAllowedError: The admins have blocked this user.
    """
    account = spelled(user)
    if account in access.blocked:
        raise NotAllowedError("You cannot use this bot. Ask its admins if you think you should.")
    if account in access.admins:
        return Role.OPERATOR
    return Role.ADMIN if admin or account in access.admins_at(place) else Role.USER


async def store(
    database: Database,
    event: Incoming | None,
    effect: Callable[[Transaction], Awaitable[Result]],
    now: Clock,
) -> Result | None:
    """Store an inbound event together with its effect, and return the result of the effect.

    The process may die at any moment: either both are stored, or neither is and the event is new
    when it is delivered or fetched again. Every change by an inbound event uses this function.

    Args:
        database: The database.
        event: The input, which its platform may deliver several times; `None` for a click, which
            is delivered once.
        effect: Writes what the event changes. It must not return `None`.
        now: The clock.

    Returns:
        The result; `None` if the event was stored before, and then the effect is not called.
    """
    async with database.transaction() as tx:
        if event is not None and not await conversations.is_new_event(
            tx, event.place.platform, event.event_id, now()
        ):
            log.info("The event %s was delivered again", event.event_id)
            return None
        return await effect(tx)


class MayAnswerError(Exception):
    """Raised to store nothing, since a message may answer an open question of a run."""


class _Queued(NamedTuple):
    """A stored message with its turn, and the turn that starts now, if any.

    `joined` is the place of the earlier message of a turn that now answers this one as well.
    `paused` is the pause for which the turn waits. `begun` is the turn if it has begun already.
    """

    message_id: str
    conversation_id: str
    turn_id: str
    starts: str | None
    joined: Place | None = None
    paused: Pause | None = None
    begun: Turn | None = None


@dataclass(frozen=True, slots=True)
class TurnQueue:
    """Stores messages as turns of their conversations, and starts one turn of each at a time.

    Attributes:
        draining: Returns True once this process begins nothing new and will end.
        begun: The turns that have begun here and are about to be worked on, by their ids.
    """

    database: Database
    engine: Engine
    tasks: Tasks
    notices: Notices
    attachments: AttachmentSettings
    sharing: Live[ConversationSettings]
    events: EventBus
    now: Clock
    draining: Callable[[], bool] = lambda: False
    begun: dict[str, Turn] = field(default_factory=dict)

    async def put(
        self,
        incoming: Incoming,
        role: Role,
        *,
        kind: turns.TurnKind = "message",
        unless_asked: bool = False,
    ) -> CommandReply | None:
        """Store a message with its turn, and start the turn if the conversation is free.

        The files of a message are fetched after it is stored. Its turn is held for a limited time,
        so that it starts in any case, with or without files.

        Args:
            incoming: The message.
            role: The role of the user.
            kind: `greeting` for a turn that is answered without a model.
            unless_asked: Whether a message that may answer a question of a run is not stored.

        Returns:
            The refusal of a message of which nothing could be accepted, or the reason for which it
            waits; `None` for any other.

        Raises:
            MayAnswerError: Nothing was stored, since a question of a run may be open to the user.
        """
        effect = partial(
            self._store, incoming=incoming, role=role, kind=kind, unless_asked=unless_asked
        )
        queued = await store(self.database, incoming, effect, self.now)
        if queued is None:
            return None
        if queued.joined is not None:
            self.notices.answered(queued.joined)
        waits = None
        if queued.paused is not None:
            waits = CommandReply(text=kept_text(queued.paused))
        elif self._ends_alone:
            # With PostgreSQL another process answers it.
            waits = CommandReply(text=LEAVING)
        else:
            self.notices.acknowledge(incoming.place)
        if queued.begun is not None:
            self.begun[queued.turn_id] = queued.begun
        if queued.starts is not None:
            self.engine.start("turn", queued.starts)
        return (await self._add_files(incoming, queued) if incoming.files else None) or waits

    async def _store(
        self,
        tx: Transaction,
        *,
        incoming: Incoming,
        role: Role,
        kind: turns.TurnKind,
        unless_asked: bool,
    ) -> _Queued:
        """Store a message with its turn, which begins now if nothing else is to be decided."""
        user, place, now = incoming.user, incoming.place, self.now()
        mode = self.sharing().at(place)
        text = incoming.text if kind == "message" else ONLY_A_MENTION
        notes = not_read_yet(incoming.files).notes if incoming.files else ()
        known = await turn_inbox.read(tx, user, place, now, mode)
        if unless_asked and (
            known.asked if known else any(await run_questions.open_in(tx, user.key, place, now))
        ):
            raise MayAnswerError
        if known is not None and not is_current(known, incoming, mode, now):
            known = None
        conversation_id, by = await conversation_of(tx, incoming, known, mode, now)
        if incoming.search_token:
            await users.set_search_token(tx, user.key, incoming.search_token)
        message_id = await conversations.say(
            tx,
            conversation_id,
            role="user",
            text=text,
            now=now,
            quoted=stored_quotes([*incoming.quoted, *notes]),
            foreign=quotes(text),
            by=by,
        )
        if not (mode.shared or is_private(place)) and self.sharing().reads_above:
            await self._tell_others(tx, incoming, conversation_id)
        usual = kind == "message" and not (incoming.files or self.draining())
        if known is not None and usual and not (known.waiting or known.paused):
            turn = begun(known, incoming, role, mode, message_id, now)
            if await turn_inbox.begin(tx, turn, self.engine.worker_id):
                return _Queued(message_id, conversation_id, turn.id, turn.id, begun=turn)
        if mode.shared and kind == "message" and not incoming.files:
            waiting = await turns.joinable(tx, conversation_id, user)
            if waiting is not None and await turns.join(tx, waiting.id, message_id, place):
                paused = await pauses.of(tx, user.key, place)
                return _Queued(message_id, conversation_id, waiting.id, None, waiting.place, paused)
        turn_id = await self._add_turn(tx, incoming, role, kind, conversation_id, message_id)
        starts = await self._claim_next(tx, conversation_id)
        paused = await pauses.of(tx, user.key, place)
        return _Queued(message_id, conversation_id, turn_id, starts, paused=paused)

    @property
    def _ends_alone(self) -> bool:
        """True if this process will end, and no other one can begin what waits."""
        return self.draining() and self.database.is_sqlite

    async def _claim_next(self, tx: Transaction, conversation_id: str) -> str | None:
        """Assign a conversation to its next turn, unless that has to wait for the next start.

        With PostgreSQL another process takes the turn from this one while it drains.
        """
        if self._ends_alone:
            return None
        return await turns.claim_next(tx, conversation_id, self.now(), self.engine.worker_id)

    async def _add_turn(
        self,
        tx: Transaction,
        incoming: Incoming,
        role: Role,
        kind: turns.TurnKind,
        conversation_id: str,
        message_id: str,
    ) -> str:
        """Store the turn of a message, which waits until its conversation is free."""
        now = self.now()
        turn_id = await turns.add(
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
            answer = greeting(COMMANDS, incoming.place.platform)
            await steps.begin_with(tx, turn_id, only_step(answer), now)
        if incoming.said_at is not None:
            await turns.set_sent_at(tx, turn_id, incoming.said_at)
        if incoming.files:
            fetching = timedelta(seconds=self.attachments.files().fetch_seconds)
            await turns.hold(tx, turn_id, now + fetching + HELD_BESIDE)
        return turn_id

    async def _tell_others(self, tx: Transaction, incoming: Incoming, but: str) -> None:
        """Store a message to the bot in the conversations that other users have in its place."""
        place = incoming.place
        for other in await conversations.open_at(tx, place, shared=False):
            if other != but and await conversations.hold(tx, other):
                if place.message:
                    await conversations.unhear(tx, other, place.message)
                await put_overheard(tx, other, incoming, by_bot=False, now=self.now())

    async def overhear(self, incoming: Incoming, *, by_bot: bool) -> bool:
        """Store a message that is not for the bot, in the conversations of its place.

        Returns:
            True if it is stored, now or before; False if there is no such conversation.
        """
        place, shared = incoming.place, self.sharing().at(incoming.place).shared
        if is_private(place) or not (incoming.text or incoming.quoted or incoming.files):
            return False
        if not self.sharing().reads_above:
            if not shared:
                return False
            # Who has spoken decides whether the bot is meant; the words are not stored.
            incoming = replace(incoming, text="", quoted=(), files=())
        found = await self.database.read(conversations.open_at, place, shared=shared)
        if not found:
            return False

        async def effect(tx: Transaction) -> bool:
            there = [each for each in found if await conversations.hold(tx, each)]
            for each in there:
                # It may have been read from the platform before it arrived.
                if not await conversations.has(tx, each, place.message):
                    await put_overheard(tx, each, incoming, by_bot=by_bot, now=self.now())
            return bool(there)

        # The message itself is still new: an edit may address it to the bot.
        heard = replace(incoming, event_id=f"overheard:{incoming.event_id}")
        return await store(self.database, heard, effect, self.now) is not False

    async def _add_files(self, incoming: Incoming, queued: _Queued) -> CommandReply | None:
        """Fetch and store the files of a message, and release its turn or withdraw it."""
        taken = await take(incoming.files, self.attachments.files(), self.attachments.reserve)
        nothing = not (incoming.text or incoming.quoted or taken.files)
        async with self.database.transaction() as tx:
            if await conversations.get(tx, queued.message_id) is None:
                # Its author has deleted it meanwhile.
                return None
            if nothing:
                await turns.withdraw(tx, queued.turn_id)
            else:
                quoted = stored_quotes([*incoming.quoted, *taken.notes])
                await conversations.requote(tx, queued.message_id, quoted)
                await stored_files.put_files(tx, queued.message_id, taken.files, self.now())
                await turns.let_go(tx, queued.turn_id)
            starts = await self._claim_next(tx, queued.conversation_id)
        if starts is not None:
            self.engine.start("turn", starts)
        if taken.files:
            user, place = incoming.user, incoming.place
            owner = place.files_key if self.sharing().at(place).shared else user.key
            self.events.publish(
                FilesAttached(message_id=queued.message_id, user=user, place=place, files_of=owner)
            )
        if nothing:
            self.notices.answered(incoming.place)
            return CommandReply(text="\n".join(taken.refusals), failed=True)
        for refusal in taken.refusals:
            self.notices.notify(incoming.place, incoming.user, refusal)
        return None

    def on_turn_waiting(self, event: TurnWaiting) -> None:
        """Start the next turn of a conversation, if one waits and none is running."""
        work = self.start_next(event.conversation_id, event.platform)
        self.tasks.start(work, name=f"next turn of {event.conversation_id}")

    async def start_next(self, conversation_id: str, platform: str) -> None:
        """Claim the next turn of a conversation and start it, if this process can answer there."""
        if platform not in self.engine.platforms:
            return
        turn_id = await self.database.write(self._claim_next, conversation_id)
        if turn_id is not None:
            self.engine.start("turn", turn_id)
