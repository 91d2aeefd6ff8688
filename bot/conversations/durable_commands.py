"""Stores commands, carries them out, and takes them up once more after a crash."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from bot.agent.sanitizer import one_line
from bot.conversations import inbound
from bot.conversations.access import is_private
from bot.conversations.commands import CommandRunner
from bot.conversations.placing import join
from bot.conversations.settings import ConversationSettings
from bot.errors import DatabaseUnreachableError
from bot.platforms.base import CommandReply, Incoming
from bot.subagents.requests import Caller
from bot.tasks import Tasks
from bot.values import Clock, Identity, Live, Place, Role, new_sortable_id
from db import commands as stored
from db import conversations, users
from db.commands import StoredCommand
from db.database import Database, Transaction, patiently

log = logging.getLogger(__name__)

#: Most attempts at a command: one, and one more after a crash.
MAX_ATTEMPTS = 2
APPLIED = "`{command}` was carried out. I was restarted before I could answer."
UNANSWERED = "I was restarted before I could answer `{command}`. Please send it again."
GIVEN_UP = (
    "`{command}` may not have been carried out: I was restarted twice while I worked on it. "
    "Please check, and send it again."
)
FAILED_LATE = (
    "`{command}` may not have been carried out: something went wrong on our side, and the log has "
    "the details. Please check, and send it again."
)
HIDDEN = "it is done, or cannot be done. `/subagents list` shows how it stands."
CARRIED_OUT_LATE = "I was restarted while I worked on `{command}`. Now: {text}"


@dataclass(frozen=True, slots=True)
class DurableCommands:
    """Carries out commands so that a crash loses none and repeats no effect.

    Attributes:
        worker_id: The id of this process, new at every start.
        tell: Sends a short text to one user in a place.
    """

    runner: CommandRunner
    database: Database
    tasks: Tasks
    worker_id: str
    tell: Callable[[Place, Identity, str], None]
    sharing: Live[ConversationSettings]
    now: Clock
    _under_way: set[str] = field(default_factory=set)

    async def carry_out(
        self,
        incoming: Incoming,
        text: str,
        role: Role,
        *,
        also: Callable[[Transaction], Awaitable[None]] | None = None,
    ) -> CommandReply | None:
        """Store a command and carry it out; return `None` if it was delivered before.

        Args:
            incoming: The input.
            text: The command.
            role: The role of the user.
            also: Writes what is stored together with the command; an error of it prevents both.
        """
        command_id = new_sortable_id()
        typed = self.runner.table().find(text)
        secret = typed and typed.command and typed.command.secret
        opens = typed and typed.command and typed.command.opens and typed.changes

        async def put(tx: Transaction) -> StoredCommand:
            if also is not None:
                await also(tx)
            await users.ensure_user(tx, incoming.user, incoming.user_name, self.now())
            user, place, mode = incoming.user, incoming.place, self.sharing().at(incoming.place)
            conversation_id = (
                await conversations.find_or_open(tx, user, place, self.now(), mode)
                if opens
                else await conversations.find(tx, user, place, mode)
            )
            if mode.shared and conversation_id:
                await join(tx, conversation_id, user, incoming.user_name)
            command = StoredCommand(
                id=command_id,
                user=incoming.user,
                place=incoming.place,
                role=role,
                text=f"/{typed.group} {typed.name}" if typed and secret else text,
                conversation_id=conversation_id or "",
            )
            await stored.put(tx, command, self.worker_id, self.now())
            return command

        self._under_way.add(command_id)
        try:
            command = await inbound.store(self.database, incoming, put, self.now)
            if command is None:
                return None
            try:
                reply = await self._run(replace(command, text=text))
            except Exception:
                # The platform reports the error to the user, who decides whether to repeat it.
                await self._finish(command_id)
                raise
            await self._finish(command_id)
            return reply
        finally:
            self._under_way.discard(command_id)

    async def take_over(
        self, tx: Transaction, alive: Sequence[str], platforms: Sequence[str]
    ) -> list[StoredCommand]:
        """Claim the commands that dead processes left."""
        return await stored.take_over(
            tx, alive, me=self.worker_id, under_way=self._under_way, platforms=platforms
        )

    def carry_out_again(self, left: Iterable[StoredCommand]) -> None:
        """Carry out the claimed commands in the background, and notify their users."""
        for command in left:
            self._under_way.add(command.id)
            self.tasks.start(self._again(command), name=f"command {command.id} once more")

    async def _again(self, command: StoredCommand) -> None:
        typed = self.runner.table().find(command.text)
        # Its skill may be off since the restart.
        shown = (
            self.runner.table().named(typed, command.place.platform)
            if typed is not None
            else one_line(command.text, 40)
        )
        log.info("The command %s (%s) was left by a process that ended", command.id, shown)
        try:
            if command.applied:
                text = APPLIED.format(command=shown)
            elif typed is None or command.attempt > MAX_ATTEMPTS:
                text = GIVEN_UP.format(command=shown)
            elif not typed.changes:
                # Its answer may be private, and it could only be sent to the place.
                text = UNANSWERED.format(command=shown)
            else:
                try:
                    reply = await self._run(command)
                except Exception:
                    log.exception("The command %s (%s) failed", command.id, shown)
                    text = FAILED_LATE.format(command=shown)
                else:
                    # The reply can only be sent to the place, and others may read there.
                    hidden = reply.private and not is_private(command.place)
                    late = HIDDEN if hidden else reply.text
                    text = CARRIED_OUT_LATE.format(command=shown, text=late)
            self.tell(command.place, command.user, text)
            await self._finish(command.id)
        finally:
            self._under_way.discard(command.id)

    async def _run(self, command: StoredCommand) -> CommandReply:
        return await self.runner.run(
            command.text,
            Caller(
                user=command.user,
                role=command.role,
                place=command.place,
                typed=True,
                conversation_id=command.conversation_id,
                command_id=command.id,
                shared=self.sharing().at(command.place).shared,
            ),
        )

    async def _finish(self, command_id: str) -> None:
        """Delete an answered command; retry later while the database is unreachable."""

        async def finish() -> None:
            await self.database.write(stored.finish, command_id)

        try:
            await finish()
        except DatabaseUnreachableError:
            self._under_way.add(command_id)
            later = self.tasks.start(patiently(finish, seconds=inf), name="finish a command")
            later.add_done_callback(lambda _: self._under_way.discard(command_id))
