"""Records the statements that a bot runs, and finds those that read a whole table."""

import json
import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from sqlalchemy import Engine, event, make_url


class Statements:
    """Statements of the bot's own connections, each with parameters of one execution."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record what is executed inside the block."""
        event.listen(Engine, "before_cursor_execute", self._note)
        try:
            yield
        finally:
            event.remove(Engine, "before_cursor_execute", self._note)

    def _note(
        self, connection: Any, _: Any, statement: str, parameters: Any, __: Any, many: bool
    ) -> None:
        ours = connection.dialect.is_async and "alembic_version" not in statement
        if ours and statement.startswith(_EXPLAINABLE):
            self.found[statement] = parameters[0] if many else parameters

    def scans(self, url: str, small: Collection[str]) -> list[str]:
        """Return the statements that read a whole table, other than these, with the reason."""
        scans = _sqlite_scans if url.startswith("sqlite") else _postgres_scans
        return sorted(
            f"{table}: {' '.join(statement.split())}"
            for statement, table in scans(url, self.found)
            if table not in small
        )

    def searches(self, url: str, table: str) -> dict[str, list[str]]:
        """Return the searches of a table, with index and condition, by statement."""
        searches = _sqlite_searches if url.startswith("sqlite") else _postgres_searches
        return searches(url, self.found, table)


_EXPLAINABLE = ("SELECT", "UPDATE", "DELETE", "INSERT", "WITH")
_SCAN = re.compile(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?")


def _sqlite_scans(url: str, statements: dict[str, Any]) -> Iterator[tuple[str, str]]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
        tables = {name for name, sql in rows if (sql or "").startswith("CREATE TABLE")}
        partial = {name for name, sql in rows if "INDEX" in (sql or "") and " WHERE " in sql}
        for statement, parameters in statements.items():
            for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters):
                scan = _SCAN.match(detail)
                if scan and scan[1] in tables and scan[2] not in partial:
                    yield statement, scan[1]


def _sqlite_searches(url: str, statements: dict[str, Any], table: str) -> dict[str, list[str]]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return {
            statement: [
                detail
                for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
                if detail.startswith(f"SEARCH {table} ")
            ]
            for statement, parameters in statements.items()
        }


def _postgres_searches(url: str, statements: dict[str, Any], table: str) -> dict[str, list[str]]:
    with psycopg.connect(_plain(url), autocommit=True) as connection:
        # The statistics of the new rows, which a server collects in the background.
        connection.execute(f"ANALYZE {table}".encode())
        return {
            statement: [
                f"{node.get('Index Name', node['Node Type'])} {node.get('Index Cond', '')}"
                for node in _plan(connection, statement)
                if node.get("Relation Name") == table
            ]
            for statement in statements
        }


def _plain(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _plan(connection: psycopg.Connection[Any], statement: str) -> Iterator[dict[str, Any]]:
    explain = f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {statement}".encode()
    (plan,) = connection.execute(explain).fetchone() or ("[]",)
    return _nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])


def _postgres_scans(url: str, statements: dict[str, Any]) -> Iterator[tuple[str, str]]:
    with psycopg.connect(_plain(url), autocommit=True) as connection:
        partial = {
            row[0]
            for row in connection.execute(
                "SELECT relname FROM pg_class JOIN pg_index ON pg_class.oid = indexrelid "
                "WHERE indpred IS NOT NULL"
            )
        }
        # The tables are almost empty: a scan would be the cheapest of all plans.
        connection.execute("SET enable_seqscan = off")
        for statement in statements:
            for node in _plan(connection, statement):
                whole = "Index Cond" not in node and node.get("Index Name") not in partial
                if node["Node Type"] == "Seq Scan" or ("Index Name" in node and whole):
                    yield statement, str(node.get("Relation Name", node.get("Index Name")))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)
