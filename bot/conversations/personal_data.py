"""Exports and deletes everything that is stored about a user."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from typing import IO, TypeVar

from bot.conversations.access import spelled
from bot.conversations.archives import packed
from bot.errors import BadRequestError, OnHoldError
from bot.personal import Leave, PersonalStore
from bot.subagents.active import ActiveRuns
from bot.subagents.limits import SubagentSettings
from bot.values import Clock, Identity, Json, Live
from db import audit, holds, user_data, user_deletion
from db import commands as stored_commands
from db import files as stored_files
from db.audit import CONSOLE, NOWHERE, AuditEntry
from db.database import Database, Transaction
from db.tables import metadata
from db.user_data import Owner, SentFile

log = logging.getLogger(__name__)

Item = TypeVar("Item")

#: Rows in one entry of an archive.
MOST_ROWS = 2_000
#: Longest wait for work to end before it is deleted, and the poll interval, in seconds.
STOP_SECONDS, POLL_SECONDS = 10.0, 0.1
#: The time for which usage is shown: runs of that time keep their numbers.
COUNTED = timedelta(days=1)

ABOUT = """\
What the bot has stored about {account}, {time}.

Each .json file holds the rows of one table: messages (what you wrote, and what the bot answered
you), turns, subagent_runs (runs, with task, result and transcript), steps (what the models said and
the tools returned), notes, memories, todos, schedules, grants and so on. Words of others are in it
where tools returned them to you, or where you quoted them: share it with care. files/ has the files
that you sent with messages, workspace/ those of your workspace. Former versions that can be undone
are not included.
"""
LEFT_OUT = "\nLeft out, since they are too large or cannot be read:\n{names}\n"
STILL_AT_WORK = (
    "Nothing is deleted yet: some of your work is still being stopped. Send it again in a minute."
)
ON_HOLD = (
    "Nothing is deleted: what is stored about you has to be kept for now. Ask those who run this "
    "bot when it can be deleted."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalData:
    """Exports and deletes the data of one user at a time.

    Attributes:
        stores: The files of users outside of the database.
        active: The runs and turns at work in this process, which are stopped at once.
        at_work: Returns True if a process may be at work on what the database has as unfinished.
        leave: End the user's access to services, before a deletion.
        stop_seconds: Longest wait for work to end.
    """

    database: Database
    stores: Sequence[PersonalStore]
    settings: Live[SubagentSettings]
    active: Sequence[ActiveRuns]
    now: Clock
    at_work: Callable[[], bool] = lambda: True
    leave: Sequence[Leave] = ()
    stop_seconds: float = STOP_SECONDS

    async def archives(
        self,
        user: Identity,
        *,
        room: int | None,
        new: Callable[[], IO[bytes]] = BytesIO,
        withheld: bool = False,
    ) -> AsyncGenerator[IO[bytes], None]:
        """Yield ZIP archives of everything that is stored about a user.

        Args:
            user: The account, of a user or of another author of messages.
            room: Most bytes of an archive; `None` for one archive without a limit.
            new: Opens the file of an archive.
            withheld: Whether it contains legal holds, and what was kept for them.
        """
        account, time = spelled(user), f"{self.now():%d %B %Y, %H:%M} UTC"

        def about(left_out: list[str]) -> str:
            names = LEFT_OUT.format(names="\n".join(left_out)) if left_out else ""
            return ABOUT.format(account=account, time=time) + names

        entries = self._entries(user, withheld=withheld)
        made = packed(entries, room=room, about=about, new=new, moment=self.now())
        async with aclosing(entries), aclosing(made):
            async for archive in made:
                yield archive

    async def _entries(
        self, user: Identity, *, withheld: bool
    ) -> AsyncGenerator[tuple[str, bytes | None], None]:
        async with self.database.snapshot() as tx:
            owner = await user_data.owner_of(tx, user.key)
            kept = list(await tx.execute(holds.contents(user.key))) if withheld else []
        for name in (*user_data.HOLDINGS, *(user_data.WITHHELD if withheld else ())):
            rows: list[Json] = []
            async with self.database.snapshot() as tx:
                async for some in user_data.rows_of(tx, metadata.tables[name], owner):
                    rows += some
                    await asyncio.sleep(0)
            for number, at in enumerate(range(0, len(rows), MOST_ROWS)):
                part = f"-{number + 1}" if number else ""
                content = await asyncio.to_thread(_document, rows[at:][:MOST_ROWS])
                yield f"{name}{part}.json", content
        for copy_id, file_name in kept:
            held = await self.database.read(holds.content, copy_id)
            yield f"held/{copy_id}-{file_name.replace('/', '_')}", held
        sent = await self._sent_files(user)
        for each in sent:
            sent_again = await self._content(each.id)
            yield f"files/{each.id}-{each.name.replace('/', '_')}", sent_again
        for store in self.stores:
            async for path, found in _in_thread(store.files(user)):
                yield f"workspace/{path}", found

    async def _sent_files(self, user: Identity) -> list[SentFile]:
        """Return the files that a user sent."""
        found: list[SentFile] = []
        async with self.database.snapshot() as tx:
            async for some in user_data.sent_files(tx, Owner(user.key)):
                found += some
                await asyncio.sleep(0)
        return found

    async def _content(self, file_id: str) -> bytes | None:
        return (await self.database.read(stored_files.contents_of, [file_id])).get(file_id)

    async def counts(self, user: Identity) -> Mapping[str, int]:
        """Return the number of rows about a user that a deletion concerns, by table with any."""
        found: Counter[str] = Counter()
        async with self.database.snapshot() as tx:
            owner = await user_data.owner_of(tx, user.key)
            async for name, number in user_data.counts(tx, owner):
                found[name] += number
                # On SQLite nothing above yields to other tasks.
                await asyncio.sleep(0)
        return {name: number for name, number in found.items() if number}

    async def is_known(self, user: Identity) -> bool:
        """Return True if anything is stored under an account."""
        return await self.database.read(user_data.known, user.key)

    async def delete(self, user: Identity, *, command_id: str = "", by: str = "") -> int:
        """Stop the work of a user, and delete everything that is stored about the user.

        Files go first, then most rows: after a crash the command is carried out again.

        Args:
            user: The account, of a user or of another author of messages.
            command_id: The command that is being carried out; empty for none.
            by: The key of the operator who deletes; empty for the user.

        Returns:
            The number of runs whose numbers stay, since limits count them.

        Raises:
            BadRequestError: Some work does not end in time; nothing is deleted.
            OnHoldError: The user is under a legal hold.
        """
        await self.refuse_held(user)
        await self._stop_work(user)
        for each in await self._sent_files(user):
            if each.place is None or await self.database.read(
                stored_files.sent_again, each.id, author=user.key
            ):
                continue
            if (content := await self._content(each.id)) is not None:
                for store in self.stores:
                    key = each.place.files_key
                    await asyncio.to_thread(store.delete_sent, key, each.name, content)
        await self.refuse_held(user)
        for leave in self.leave:
            await leave(user)
        for store in self.stores:
            await asyncio.to_thread(store.delete, user)
        rates = (self.settings().spawn_rate_limit, self.settings().delegation_rate_limit)
        windows = (timedelta(seconds=each.window_seconds) for each in rates)
        now = self.now()
        since = now - max(COUNTED, *windows)
        async with self.database.snapshot() as tx:
            owner = await user_data.owner_of(tx, user.key)
        for part in user_deletion.parts(owner, since, now):
            more = True
            while more:
                async with self.database.transaction() as tx:
                    await _refuse_held(tx, user)
                    more = await part(tx)
                # On SQLite nothing above yields to other tasks.
                await asyncio.sleep(0)
        async with self.database.transaction() as tx:
            await _refuse_held(tx, user)
            await stored_commands.apply(tx, command_id, now)
            # The deletion erases the text of this as well: time, action and pseudonyms stay.
            entry = AuditEntry(
                actor=by or user.key,
                action="delete" if by else "forget",
                owner=user.key,
                place=CONSOLE if by else NOWHERE,
                created_at=now,
                id=command_id,
            )
            await audit.record(tx, entry)
            owner = await user_data.owner_of(tx, user.key)
            kept = await user_deletion.delete_user(
                tx, owner, counted_since=since, now=now, command_id=command_id
            )
        log.info("Everything that was stored about a user is deleted")
        return kept

    async def refuse_held(self, user: Identity) -> None:
        """Raise an error if the user is under a legal hold.

        Raises:
            OnHoldError: The user is.
        """
        await self.database.write(_refuse_held, user)

    async def _stop_work(self, user: Identity) -> None:
        """Stop the runs and turns of a user, and wait for their end.

        Raises:
            BadRequestError: Some are at work for longer than `stop_seconds`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.stop_seconds
        while True:
            work = await self.database.write(user_deletion.stop_work, user.key, self.now())
            if not work or not self.at_work():
                return
            for each in (*work.runs, *work.turns):
                for active in self.active:
                    active.stop(each)
            if loop.time() > deadline:
                raise BadRequestError(STILL_AT_WORK)
            await asyncio.sleep(POLL_SECONDS)


async def _refuse_held(tx: Transaction, user: Identity) -> None:
    if await holds.of(tx, user.key):
        raise OnHoldError(ON_HOLD)


def _document(rows: Sequence[Json]) -> bytes:
    return json.dumps(rows, ensure_ascii=False, indent=1).encode("utf-8", "replace")


async def _in_thread(items: Iterator[Item]) -> AsyncGenerator[Item, None]:
    """Yield what a blocking iterator yields."""
    end = object()
    while (item := await asyncio.to_thread(next, items, end)) is not end:
        yield item  # type: ignore[misc]
