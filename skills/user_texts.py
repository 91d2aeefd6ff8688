"""Stores the texts of users for the skills `notes` and `memory`, and restores deleted ones."""

import uuid
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Generic

from bot.agent.sanitizer import one_line
from bot.changes import CAN_BE_UNDONE
from bot.errors import BadRequestError
from bot.values import Json
from db import audit, changes
from db.audit import AuditEntry
from db.database import Database, Transaction
from db.user_texts import Text, UserTexts
from db.users import lock
from skills.base import Reach, ToolContext, ToolError


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStore(Generic[Text]):
    """The texts of one kind; a `db.changes.Restorer` of deleted ones.

    Attributes:
        row: The class of the texts.
        kind: Their kind, as changes and users name it.
        plural: Their kind, for several.
        most: Most texts of a user.
        unique: Whether the same words are stored only once.
        tools: The names of the tools that list and delete them.
    """

    row: type[Text]
    texts: UserTexts[Text]
    kind: str
    plural: str
    most: int
    unique: bool = False
    tools: tuple[str, str]

    async def save(self, database: Database, user: str, text: Text) -> tuple[Text, bool]:
        """Store a text, unless it is stored already.

        Returns:
            The stored text, and True if it is new.

        Raises:
            ToolError: The user has the most texts allowed.
        """
        async with database.transaction() as tx:
            await lock(tx, user)
            known = await self._find(tx, user, text.id, text.text)
            if known is not None:
                return known, False
            if (count := await self.texts.count(tx, user)) >= self.most:
                raise ToolError(
                    f"This user has {count:,} {self.plural}, which is the most. Ask which ones may "
                    f"go, and delete them with {self.tools[1]}."
                )
            return await self.texts.add(tx, user, text), True

    async def delete(self, database: Database, context: ToolContext, number: int) -> str:
        """Delete a text so that it can be restored, and return a sentence about it.

        Raises:
            ToolError: There is no such text.
        """
        user = context.user.key
        async with database.transaction() as tx:
            await lock(tx, user)
            text = await self.texts.get(tx, user, number)
            if text is None:
                raise ToolError(self.missing(number))
            await changes.keep(
                tx,
                context.cause,
                kind=self.kind,
                key=text.id,
                title=f"{self.kind} {number} “{one_line(text.name, 80)}”",
                before=_state(text),
                after=None,
                now=context.now(),
                drops=not context.spares_former,
            )
            await self.texts.remove(tx, user, number)
            entry = AuditEntry(
                actor=user,
                action=f"delete {self.kind}",
                owner=user,
                place=context.place,
                subject=str(text.number),
                created_at=context.now(),
                id=audit.entry_id("delete", context.work_id, context.call_id),
            )
            await audit.record(tx, entry)
        return f"{self.kind.capitalize()} {number} is deleted. {CAN_BE_UNDONE}"

    async def reach(self, database: Database, context: ToolContext, _: Json) -> Reach:
        """Return the reach of deleting a text: it may push others out of the undo store."""
        has_room = await database.read(changes.has_room, context.user.key, self.kind)
        return Reach.CHANGES_OWN if has_room else Reach.DESTROYS

    def missing(self, number: int) -> str:
        """Return the sentence that there is no text of this number."""
        return f"There is no {self.kind} {number}. See {self.tools[0]} for the numbers."

    async def state(self, tx: Transaction, user: str, key: str) -> Json | None:
        """Return a user's text as a document."""
        text = await self.texts.find(tx, user, key)
        return None if text is None else _state(text)

    async def restore(
        self, tx: Transaction, user: str, key: str, before: Json | None, *, beside: bool
    ) -> tuple[str, str]:
        """Restore a user's text under its number, or the next one; `None` deletes it again.

        Raises:
            BadRequestError: The user has the most texts allowed.
        """
        await lock(tx, user)
        there = await self._find(tx, user, key, before["text"] if before else None)
        if before is None:
            if there is not None:
                await self.texts.remove(tx, user, there.number)
            return key, f"The {self.kind} is deleted again."
        if there is not None:
            return key, f"It is there already, as {self.kind} {there.number}."
        if await self.texts.count(tx, user) >= self.most:
            raise BadRequestError(f"You have {self.most:,} {self.plural}, which is the most.")
        created_at = datetime.fromisoformat(before["created_at"])
        text = self.row(**before | {"id": key, "created_at": created_at})
        return key, f"It is {self.kind} {(await self.texts.add(tx, user, text)).number}."

    async def _find(self, tx: Transaction, user: str, key: str, text: str | None) -> Text | None:
        return await self.texts.find(tx, user, key, text if self.unique else None)


def id_of_call(namespace: uuid.UUID, context: ToolContext) -> str:
    """Return the id of what a call stores: the same call made again after a crash finds it."""
    return uuid.uuid5(namespace, f"{context.work_id}/{context.call_id}").hex


def _state(text: Text) -> Json:
    return asdict(text) | {"created_at": text.created_at.isoformat()}
