"""Notifications between processes, when the connection is in use or lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import make_url, text

from db.database import Database, DatabaseSettings
from db.notifications import Notifications


@pytest.mark.processes
async def test_what_is_sent_last_waits_for_what_is_being_sent(postgres_url: str) -> None:
    connected, received = asyncio.Event(), list[str]()

    def receive(subject: str) -> None:
        received.append(subject)
        connected.set()

    async with (
        Database.open(DatabaseSettings(url=postgres_url)) as database,
        asyncio.timeout(20),
        Notifications.open(database, receive) as notifications,
    ):
        await connected.wait()
        await asyncio.sleep(0)
        notifications.send("run")
        await asyncio.sleep(0)
        notifications.send("turn")
    assert received[0] == ""


@asynccontextmanager
async def kept_open(url: str) -> AsyncIterator[str]:
    """Forward connections to a server, and keep the client's end open when the server's ends."""
    given = make_url(url)

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        # The client says goodbye with an X.
        while (read := await source.read(65_536)) and not read.startswith(b"X"):
            sink.write(read)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = await asyncio.open_unix_connection(f"{given.query['host']}/.s.PGSQL.5432")
        answers = asyncio.ensure_future(copy(server[0], writer))
        await copy(reader, server[1])
        for each in (server[1], writer):
            each.close()
        await answers

    proxy = await asyncio.start_server(forward, "127.0.0.1", 0)
    async with proxy:
        port = proxy.sockets[0].getsockname()[1]
        through = given.set(host="127.0.0.1", port=port, query={})
        yield through.render_as_string(hide_password=False)


LISTENS = text(
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND (query LIKE 'LISTEN%' OR query LIKE '%pg_notify%')"
)


@pytest.mark.processes
async def test_a_session_that_ended_before_its_connection_is_replaced(postgres_url: str) -> None:
    received = asyncio.Queue[str]()
    async with (
        asyncio.timeout(20),
        kept_open(postgres_url) as proxy,
        Database.open(DatabaseSettings(url=postgres_url)) as other,
        Database.open(DatabaseSettings(url=proxy)) as database,
        Notifications.open(database, received.put_nowait) as notifications,
    ):
        connected = [await received.get()]
        notifications.send("run")
        connected.append(await received.get())
        assert await other.write(lambda tx: tx.scalar(LISTENS))
        notifications.send("turn")

        # Once connected again, and by the notification that was repeated without its subject.
        connected += [await received.get(), await received.get()]
    assert connected == ["", "run", "", ""]
