"""The texts that users have stored, numbered for each user: notes, and memories."""

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, delete, func, insert, select

from db.database import Transaction
from db.rows import RowMapper, count_rows

#: A frozen dataclass with `id`, `number`, `text` and `created_at`.
Text = TypeVar("Text", bound=Any)


@dataclass(frozen=True)
class UserTexts(RowMapper[Text], Generic[Text]):
    """The texts in one table. Its methods reach those of one user only."""

    async def add(self, tx: Transaction, user: str, text: Text) -> Text:
        """Store a text; the caller has locked the user's row.

        It keeps its number if that is free; otherwise, and for 0, it is given the user's next one.
        """
        if not text.number or await self.get(tx, user, text.number) is not None:
            newest = select(func.max(self.table.c.number)).where(self.table.c.user_id == user)
            text = replace(text, number=(await tx.scalar(newest) or 0) + 1)
        await tx.execute(insert(self.table), {"user_id": user, **self.values(text)})
        return text

    async def find(
        self, tx: Transaction, user: str, text_id: str, text: str | None = None
    ) -> Text | None:
        """Return a user's text that has this id or exactly these words."""
        same = self.table.c.id == text_id
        return await self._one(
            tx, user, same if text is None else same | (self.table.c.text == text)
        )

    async def get(self, tx: Transaction, user: str, number: int) -> Text | None:
        """Return a user's text by its number."""
        return await self._one(tx, user, self.table.c.number == number)

    async def count(self, tx: Transaction, user: str) -> int:
        """Return the number of a user's texts."""
        return await count_rows(tx, self.table, self.table.c.user_id == user)

    async def newest(
        self, tx: Transaction, user: str, *, limit: int | None = None, offset: int = 0
    ) -> list[Text]:
        """Return a user's texts, or a page of them, newest first."""
        query = select(*self.columns).where(self.table.c.user_id == user)
        newest = query.order_by(self.table.c.number.desc())
        return await self.all(tx, newest.limit(limit).offset(offset))

    async def remove(self, tx: Transaction, user: str, number: int) -> bool:
        """Delete a user's text; return False if it did not exist."""
        mine = self.table.c.user_id == user, self.table.c.number == number
        return (await tx.execute(delete(self.table).where(*mine))).rowcount > 0

    async def _one(self, tx: Transaction, user: str, condition: ColumnElement[bool]) -> Text | None:
        query = select(*self.columns).where(self.table.c.user_id == user, condition)
        return await self.first(tx, query.order_by(self.table.c.number.desc()).limit(1))
