"""Pauses, resumes, stops and drains the work of a bot, for admins."""

import asyncio
import re
from dataclasses import dataclass, field, replace
from datetime import datetime

from bot.conversations.access import (
    account_in,
    account_workspace,
    has_admin_powers,
    is_operator,
    spelled_place,
)
from bot.errors import BadRequestError, NotAllowedError
from bot.events import EventBus, TurnWaiting
from bot.platforms.catalog import declared, is_known
from bot.subagents.active import ActiveRuns
from bot.subagents.manager import SubagentManager
from bot.subagents.requests import Caller
from bot.values import Clock, Identity, Place
from db import audit, commands, pauses, runs, turns
from db.database import Database, Transaction
from db.pauses import EVERYWHERE, Pause
from db.runs import Run
from db.turns import Turn

SCOPES = (
    "Write `all`, `server`, `here`, `channel discord:SERVER:CHANNEL`, or `user` and a mention or "
    "an account such as `discord:1234`, `slack:T012345:U012345`."
)
ONLY_OPERATORS = (
    "Only an operator can do that for the whole bot. `server` means this server or workspace."
)
BY_OPERATOR = "An operator has paused this: only an operator can end it."
NOT_THERE = "You are no admin there. Nothing was changed."
NO_SERVER = "There is no server or workspace here. Type it in a channel of the one that you mean."
_MENTION = re.compile(r"<@!?(?P<account>[A-Za-z0-9_-]{1,40})(\|[^>]*)?>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """The unfinished work in a scope."""

    runs: list[Run]
    turns: list[Turn]

    @property
    def users(self) -> int:
        """The number of users whose work it is."""
        return len({*(run.user_id for run in self.runs), *(each.user.key for each in self.turns)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Pauses, resumes and stops work within the powers of an admin.

    Attributes:
        active_turns: The turns at work in this process.
        draining: Set to let this process finish its work and end.
    """

    database: Database
    manager: SubagentManager
    active_turns: ActiveRuns
    events: EventBus
    now: Clock
    draining: asyncio.Event = field(default_factory=asyncio.Event)

    def scope(self, words: str, caller: Caller) -> Pause:
        """Return the scope that an admin has typed, as a pause.

        Raises:
            BadRequestError: It is no scope; the text has the forms.
            NotAllowedError: The caller is no admin of this scope.
        """
        kind, _, name = words.strip().partition(" ")
        operator, here = is_operator(caller), caller.place
        kind = kind.lower() or ("all" if operator else "server")
        server = Place(here.platform, here.workspace)
        user, place = "", EVERYWHERE
        match kind:
            case "all" if not name:
                pass
            case "server" | "workspace" if not name:
                if not here.workspace:
                    raise BadRequestError(NO_SERVER)
                place = server
            case "here" if not name:
                place = Place(here.platform, here.workspace, here.channel)
            case "server" | "workspace" | "channel" if name:
                parts = name.strip("`").split(":")
                if len(parts) != (3 if kind == "channel" else 2) or not all(parts):
                    raise BadRequestError(SCOPES)
                if parts[0] != here.platform and not declared(parts[0]).server:
                    raise BadRequestError(SCOPES)
                place = Place(*parts)
            case "user" if name:
                user = account_named(name.strip("` "), caller.user).key
                # Another server's admins decide what the user does there.
                place = EVERYWHERE if operator else server
            case _:
                raise BadRequestError(SCOPES)
        if not (operator or place.platform):
            raise NotAllowedError(ONLY_OPERATORS)
        if not has_admin_powers(caller, place if place.platform else None):
            raise NotAllowedError(NOT_THERE)
        return Pause(
            user_id=user,
            place=place,
            paused_by=caller.user.key,
            by_operator=operator,
            created_at=self.now(),
        )

    async def pause(self, pause: Pause, caller: Caller, *, last: bool = True) -> None:
        """Let nothing new begin in a scope.

        Args:
            pause: The scope.
            caller: The admin.
            last: Whether this completes the command of the admin.
        """
        async with self.database.transaction() as tx:
            await pauses.put(tx, pause)
            await self._record(tx, "kill" if pause.killed else "pause", pause, caller)
            if last:
                await commands.apply(tx, caller.command_id, self.now())

    async def _record(self, tx: Transaction, action: str, scope: Pause, caller: Caller) -> None:
        """Record what an admin did, once for a command that is carried out again."""
        where = spelled_place(scope.place) or "all"
        entry = caller.entry(action, self.now(), owner=scope.user_id, subject=where)
        await audit.record(tx, entry)

    async def resume(self, scope: Pause, caller: Caller) -> tuple[bool, list[Pause]]:
        """Lift the pause of a scope, and start what waits.

        Returns:
            False if there was no pause of this scope; the pauses that are left within the powers of
            the admin.

        Raises:
            NotAllowedError: An operator has paused it, and the caller is none.
        """
        async with self.database.transaction() as tx:
            if not scope.by_operator and await pauses.is_of_operator(tx, scope.id):
                raise NotAllowedError(BY_OPERATOR)
            await commands.apply(tx, caller.command_id, self.now())
            lifted = await pauses.lift(tx, scope.id)
            if lifted:
                await self._record(tx, "resume", scope, caller)
            left = await pauses.listed(tx)
            waiting = await turns.waiting_conversations(tx)
        for conversation_id, platform in waiting:
            self.events.publish(TurnWaiting(conversation_id=conversation_id, platform=platform))
        await self.manager.endings.promote()
        return lifted, [
            each
            for each in left
            if has_admin_powers(caller, each.place if each.place.platform else None)
        ]

    async def affected(self, scope: Pause) -> Affected:
        """Return the unfinished work in a scope."""
        async with self.database.snapshot() as tx:
            found = await runs.active(tx, scope.user_id or None, limit=10_000)
            answering = await turns.all_running(tx)
        return Affected(
            runs=[each for each in found if scope.covers(each.user_id, each.place)],
            turns=[each for each in answering if scope.covers(each.user.key, each.place)],
        )

    async def kill(self, scope: Pause, caller: Caller) -> Affected:
        """Pause a scope, then stop all work in it; what there is so far is delivered.

        Nothing begins after the pause is committed, so that nothing is left out.
        """
        await self.pause(replace(scope, killed=True), caller, last=False)
        affected = await self.affected(scope)
        for run in affected.runs:
            await self.manager.stop_run(run, caller)
        async with self.database.transaction() as tx:
            for turn in affected.turns:
                await stop_turn(tx, turn, caller, self.now())
            await commands.apply(tx, caller.command_id, self.now())
        for turn in affected.turns:
            self.active_turns.stop(turn.id)
        return affected

    async def drain(self, caller: Caller) -> None:
        """Let this process begin nothing more, finish its work, and end."""
        async with self.database.transaction() as tx:
            # Stored first: the next start must not drain again.
            await commands.apply(tx, caller.command_id, self.now())
            nobody = Pause(paused_by=caller.user.key, created_at=self.now())
            await self._record(tx, "drain", nobody, caller)
        self.draining.set()


async def stop_turn(tx: Transaction, turn: Turn, caller: Caller, now: datetime) -> bool:
    """Request that a turn be stopped, and record that once; `False` when it is over."""
    if not await turns.request_stop(tx, turn.id, now):
        return False
    entry = caller.entry(
        "stop",
        now,
        owner=turn.user.key,
        subject=turn.id,
        effect="an answer",
        id_=audit.entry_id("stop", turn.id, caller.user.key),
    )
    await audit.record(tx, entry)
    return True


def account_named(typed: str, admin: Identity) -> Identity:
    """Return the account that an admin has typed: a mention, or as in the configuration.

    Raises:
        BadRequestError: It is no account.
    """
    if mention := _MENTION.fullmatch(typed):
        workspace = account_workspace(admin.platform, admin.workspace)
        return Identity(admin.platform, workspace, mention["account"])
    found = account_in(typed)
    known = found is not None and (found.platform == admin.platform or is_known(found.platform))
    if found is None or not known or " " in typed:
        raise BadRequestError(SCOPES)
    return found
