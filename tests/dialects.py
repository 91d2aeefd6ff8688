"""Lets all engines of a test process share what SQLAlchemy makes once for each engine.

An engine asks its database what it is, and compiles each statement when it is first needed: once
for a bot, but anew for each test without this.
"""

from typing import Any, ClassVar, Self

from sqlalchemy import Connection, Engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

#: Statements that are kept for each dialect: more than there are.
STATEMENTS = 5_000


class Shared(DefaultDialect):
    """Is one object for all engines with the same options, and knows their compiled statements."""

    _made: ClassVar[dict[object, Any]] = {}
    _compiled: LRUCache[Any, Any]
    _initialized = False

    def __init_subclass__(cls) -> None:
        # Asked of each class by itself.
        cls.supports_statement_cache = True

    def __new__(cls, **options: Any) -> Self:
        # The driver's module is wrapped anew for each engine, always in the same way.
        key = (cls, *sorted((name, each) for name, each in options.items() if name != "dbapi"))
        made: Self = cls._made.setdefault(key, super().__new__(cls))
        return made

    def __init__(self, **options: Any) -> None:
        if not hasattr(self, "_compiled"):
            super().__init__(**options)
            self._compiled = LRUCache(STATEMENTS)

    def initialize(self, connection: Connection) -> None:
        if not self._initialized:
            super().initialize(connection)
            self._initialized = True

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        assert isinstance(engine.dialect, Shared)
        engine._compiled_cache = engine.dialect._compiled


class AsyncpgDialect(Shared, PGDialect_asyncpg): ...


class PsycopgDialect(Shared, PGDialect_psycopg): ...


class AiosqliteDialect(Shared, SQLiteDialect_aiosqlite): ...


class PysqliteDialect(Shared, SQLiteDialect_pysqlite): ...


def share() -> None:
    """Use these dialects for all engines that are made from now on."""
    for name, dialect in (
        ("postgresql.asyncpg", AsyncpgDialect),
        ("postgresql.psycopg", PsycopgDialect),
        ("sqlite.aiosqlite", AiosqliteDialect),
        ("sqlite", PysqliteDialect),
        ("sqlite.pysqlite", PysqliteDialect),
    ):
        registry.register(name, __name__, dialect.__name__)
