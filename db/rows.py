"""Shared by all queries: records from rows, changes of rows, and conditions on owner and place."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Insert,
    Select,
    Table,
    delete,
    func,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.base import Executable, ReadOnlyColumnCollection

from bot.platforms.catalog import declared
from bot.values import Identity, Json, Place
from db.database import Transaction
from db.tables import users

Record = TypeVar("Record")

PLACE = ("channel", "place_workspace", "place_channel", "place_thread", "place_message")


@dataclass(frozen=True)
class RowMapper(Generic[Record]):
    """Reads the rows of a table as records of a dataclass.

    A field has the value of the column with its name. A field `place` is read from the columns of
    a place, and a field `user` from the table of users.

    Attributes:
        kind: The dataclass.
        table: The table.
        others: Columns of other names or tables, by field.
        convert: Functions that convert the values of some fields.
    """

    kind: type[Record]
    table: Table
    others: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)
    convert: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(each.name for each in fields(self.kind))  # type: ignore[arg-type]

    @cached_property
    def _plain(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in {"place", "user"})

    @cached_property
    def columns(self) -> list[ColumnElement[Any]]:
        """The columns that a statement has to return."""
        found: list[ColumnElement[Any]] = [
            self.others[name].label(name) if name in self.others else self.table.c[name]
            for name in self._plain
        ]
        if "place" in self.names:
            found += [self.table.c[name] for name in PLACE]
        if "user" in self.names:
            found += [users.c.platform, users.c.workspace, users.c.account]
        return found

    @cached_property
    def query(self) -> Select[Any]:
        """A select of the columns."""
        query = select(*self.columns)
        joined = "user" in self.names
        return query.join(users, users.c.id == self.table.c.user_id) if joined else query

    def of(self, row: Any) -> Record:
        """Return the record in a row that begins with `columns`."""
        # The columns come first, in this order: by name, reading a history took twice as long.
        values: Json = dict(zip(self._plain, row, strict=False))
        for name, function in self.convert.items():
            values[name] = function(values[name])
        if "place" in self.names:
            values["place"] = Place(*(getattr(row, name) for name in PLACE))
        if "user" in self.names:
            values["user"] = Identity(row.platform, row.workspace, row.account)
        return self.kind(**values)

    async def find_one(self, tx: Transaction, *conditions: ColumnElement[bool]) -> Record | None:
        """Return the record of a row that meets all conditions; `None` if no row does."""
        return await self.first(tx, self.query.where(*conditions))

    async def find_all(
        self,
        tx: Transaction,
        *conditions: ColumnElement[bool],
        order: Sequence[ColumnElement[Any]],
        limit: int | None = None,
    ) -> list[Record]:
        """Return the records of the rows that meet all conditions."""
        return await self.all(tx, self.query.where(*conditions).order_by(*order).limit(limit))

    async def first(
        self, tx: Transaction, statement: Executable, parameters: Any = None
    ) -> Record | None:
        """Return the first record that a statement returns; `None` if it returns none."""
        row = (await tx.execute(statement, parameters)).first()
        return None if row is None else self.of(row)

    async def all(
        self, tx: Transaction, statement: Executable, parameters: Any = None
    ) -> list[Record]:
        """Return the records that a statement returns."""
        return [self.of(row) for row in await tx.execute(statement, parameters)]

    def values(self, record: Any) -> Json:
        """Return the values of a record to be stored, by column."""
        stored = (name for name in self._plain if name not in self.others)
        values = {name: getattr(record, name) for name in stored}
        if "place" in self.names:
            values |= place_columns(record.place)
        if "user" in self.names:
            values["user_id"] = record.user.key
        return values


async def change(
    tx: Transaction, table: Table, *conditions: ColumnElement[bool], **values: Any
) -> bool:
    """Set columns of the rows that meet all conditions; `False` if no row does."""
    return (await tx.execute(update(table).where(*conditions).values(**values))).rowcount > 0


async def remove(tx: Transaction, table: Table, *conditions: ColumnElement[bool]) -> bool:
    """Delete the rows that meet all conditions; `False` if no row does."""
    return (await tx.execute(delete(table).where(*conditions))).rowcount > 0


async def count_rows(tx: Transaction, table: Table, *conditions: ColumnElement[bool]) -> int:
    """Return the number of rows that meet all conditions."""
    return await tx.scalar(select(func.count()).select_from(table).where(*conditions)) or 0


async def has_row(tx: Transaction, table: Table, *conditions: ColumnElement[bool]) -> bool:
    """Return True if a row meets all conditions."""
    found: Select[Any] = select(literal_column("1")).select_from(table).where(*conditions)
    return await tx.scalar(found.limit(1)) is not None


def any_of(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition that a row meets all conditions."""
    return select(literal_column("1")).where(*conditions).exists()


def insert_into(tx: Transaction, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return an insert that supports `on_conflict_do_update` and `on_conflict_do_nothing`."""
    return sqlite.insert(table) if tx.dialect.name == "sqlite" else postgresql.insert(table)


async def insert_new(tx: Transaction, table: Table, row: Json | Sequence[Json]) -> bool:
    """Insert a row; `False` if its key is stored already, so that nothing is changed."""
    return (await tx.execute(_insert_new(tx.dialect.name, table), row)).rowcount > 0


@cache
def _insert_new(dialect: str, table: Table) -> Insert:
    """Return the statement of `insert_new`, which is on the way of every run."""
    insert = sqlite.insert if dialect == "sqlite" else postgresql.insert
    return insert(table).on_conflict_do_nothing()


async def put_row(tx: Transaction, table: Table, row: Json) -> None:
    """Insert a row, or replace the row with its primary key."""
    keys = [column.name for column in table.primary_key]
    await tx.execute(
        insert_into(tx, table).values(row).on_conflict_do_update(index_elements=keys, set_=row)
    )


def place_columns(place: Place) -> dict[str, str]:
    """Return a place as the columns that hold it in every table."""
    parts = (place.platform, place.workspace, place.channel, place.thread, place.message)
    return dict(zip(PLACE, parts, strict=True))


def is_at(table: FromClause, place: Place, *names: str) -> list[ColumnElement[bool]]:
    """Return the conditions for the rows whose place has the same values in these columns."""
    columns = place_columns(place)
    return [table.c[name] == columns[name] for name in names]


def owned_by(table: Table, user_id: str | None) -> list[ColumnElement[bool]]:
    """Return the condition for the rows of a user; of all users for `None`."""
    return [] if user_id is None else [table.c.user_id == user_id]


def one_of(column: ColumnElement[str], names: Iterable[str]) -> ColumnElement[bool]:
    """Return the condition that a column has one of some constant names, which are written out.

    SQLAlchemy writes the list of an `in_` anew at each execution; PostgreSQL finds a partial index
    by constants alone.
    """
    return column.in_([literal_column(f"'{name}'") for name in sorted(names)])


def begun_in(
    columns: ReadOnlyColumnCollection[str, Any], place: Place | None
) -> list[ColumnElement[bool]]:
    """Return the conditions for rows of the server or workspace of a place; none for `None`."""
    if place is None:
        return []
    return [columns.channel == place.platform, columns.place_workspace == place.workspace]


def readable_in(table: Table, place: Place | None) -> list[ColumnElement[bool]]:
    """Return the condition for rows whose place every reader of `place` can read; all for `None`.

    The SQL equivalent of `bot.conversations.access.can_read`.
    """
    if place is None:
        return []
    channel = is_at(table, place, "channel", "place_workspace", "place_channel")
    if declared(place.platform).open_threads:
        return channel
    thread = table.c.place_thread
    return [*channel, or_(thread.in_(("", place.thread)), thread == table.c.place_message)]
