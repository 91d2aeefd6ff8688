"""Carries out `/retinue undo`: lists a user's changes, and takes them back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bot.agent.sanitizer import one_line
from bot.changes import Cause, ChangeStore, OwnChange, handle, is_meant, time_of
from bot.errors import BadRequestError, NotFoundError
from bot.platforms.base import CommandReply
from bot.subagents.requests import Caller
from bot.values import Clock, Identity, Place, short
from db import audit, changes, commands, runs
from db.changes import Restorer, StoredChange, fingerprint
from db.database import Database

MOST_SHOWN = 10

NOTHING = "There is nothing to undo."
ALREADY = "It was undone already."

Change = OwnChange | StoredChange


@dataclass(frozen=True, slots=True)
class Undo:
    """Lists and takes back the changes of the user who asks, and of no other user.

    Attributes:
        restorers: Returns the restorers of stored changes, by kind.
        stores: Returns the stores of changes that skills keep themselves.
    """

    database: Database
    restorers: Callable[[], Mapping[str, Restorer]]
    stores: Callable[[], Sequence[ChangeStore]]
    now: Clock

    async def run(self, words: str, caller: Caller) -> CommandReply:
        """Carry out the words after `/undo`.

        Raises:
            BotError: The command cannot be carried out; the text has the reason.
        """
        typed = words.strip().strip("`").lower()
        found: list[Change] = []
        for store in self.stores():
            found += await store.changes(caller.user, _shared_place(caller))
        found += await self.database.read(changes.newest, caller.user.key)
        found = [change for change in found if not change.undone]
        found.sort(key=lambda change: change.id, reverse=True)
        action, _, wanted = typed.partition(" ")
        if action in {"", "list"}:
            return CommandReply(text=await self._list(found, caller.user, wanted.strip()))
        change = await self._begun(caller) or _meant(typed, found)
        if isinstance(change, StoredChange):
            user = caller.user
            restorer = self.restorers().get(change.kind)
            if restorer is None:
                title = change.title[:1].upper() + change.title[1:]
                raise BadRequestError(f"{title} cannot be restored: it is switched off.")
            now = self.now()
            async with self.database.transaction() as tx:
                if not await changes.mark_undone(tx, user.key, change.id, now):
                    raise BadRequestError(ALREADY)
                await commands.apply(tx, caller.command_id, now)
                entry = caller.entry("undo", now, owner=user.key, subject=change.kind)
                await audit.record(tx, entry)
                current = await restorer.state(tx, user.key, change.key)
                beside = fingerprint(current) != change.after
                key, text = await restorer.restore(
                    tx, user.key, change.key, change.before, beside=beside
                )
                undo = await changes.keep(
                    tx,
                    Cause(user_id=user.key, work_id="", run_id=None, undoes=change.id),
                    kind=change.kind,
                    key=key,
                    title=change.title,
                    before=current if key == change.key else None,
                    after=await restorer.state(tx, user.key, key),
                    now=now,
                )
            done = "Deleted" if change.before is None else "Restored"
            return CommandReply(text=f"{done} {change.title}. {text}{_taken_back_by(undo.id)}")
        undone = await change.undo(caller.command_id)
        again = _taken_back_by(undone.id) if undone.id else ""
        return CommandReply(text=undone.text + again, failed=undone.failed)

    async def _begun(self, caller: Caller) -> OwnChange | None:
        """Return the change of a skill that this command began to take back before a crash.

        Raises:
            BadRequestError: The command had completed before the crash.
        """
        if not caller.command_id:
            return None
        place = _shared_place(caller)
        found = [
            each for store in self.stores() for each in await store.changes(caller.user, place)
        ]
        mine = next((each for each in found if each.cause.work_id == caller.command_id), None)
        if mine is None:
            return None
        change = next((each for each in found if each.id == mine.cause.undoes), None)
        if change is None or change.undone:
            raise BadRequestError(ALREADY)
        return change

    async def _list(self, found: Sequence[Change], user: Identity, wanted: str) -> str:
        found = [
            change
            for change in found
            if wanted
            in (change.title if isinstance(change, StoredChange) else change.names).lower()
        ]
        if not found:
            return f"There is nothing to undo with “{one_line(wanted, 40)}”." if wanted else NOTHING
        shown = found[:MOST_SHOWN]
        ids = {change.cause.run_id for change in shown if change.cause.run_id is not None}
        started = await self.database.read(runs.get_many, sorted(ids))
        labels = {run.id: one_line(run.label, 40) for run in started if run.user_id == user.key}
        lines = [
            f"- `{handle(change.id)}` {time_of(change.id):%d %b %H:%M} UTC: "
            f"{_described(change, labels)}"
            for change in shown
        ]
        more = len(found) - len(shown)
        return "\n".join(
            [
                "**What you can take back**, newest first",
                *lines,
                *([f"- {more} older ones: `/retinue undo list NAME` finds them"] if more else []),
                "",
                "`/retinue undo last` takes back the last one, `/retinue undo ID` any of them.",
            ]
        )


def _shared_place(caller: Caller) -> Place | None:
    return caller.place if caller.shared else None


def _meant(typed: str, found: Sequence[Change]) -> Change:
    """Return the one change that a user means.

    Raises:
        NotFoundError: No change fits.
        BadRequestError: Several changes fit.
    """
    if typed == "last":
        change = next((each for each in found if not each.cause.undoes), None)
        if change is None:
            raise NotFoundError(NOTHING)
        return change
    fitting = [change for change in found if is_meant(typed, change.id)]
    if not fitting:
        raise NotFoundError(
            f"“{one_line(typed, 40)}” is nothing that can be undone. `/retinue undo` shows what "
            "can; what is older than it may be, or was taken back, is not among it."
        )
    if len(fitting) > 1:
        raise BadRequestError(f"“{typed}” fits several changes: type more of the id.")
    return fitting[0]


def _described(change: Change, labels: Mapping[str, str]) -> str:
    """Return a change and its author: `replaced the note “x” (by run `1a2b`)`."""
    if not isinstance(change, StoredChange):
        what = change.what
    elif change.before is None:
        what = f"brought back {change.title}"
    else:
        what = f"{'replaced' if change.after else 'deleted'} {change.title}"
    run_id = change.cause.run_id
    if change.cause.undoes:
        return f"{what} (by you)"
    if run_id is None:
        return f"{what} (in our conversation)"
    label = f" “{labels[run_id]}”" if labels.get(run_id) else ""
    return f"{what} (by run `{short(run_id)}`{label})"


def _taken_back_by(undo: str) -> str:
    return f" `/retinue undo {handle(undo)}` takes this back."
