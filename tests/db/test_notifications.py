"""Notifications between processes, when the connection is in use or lost."""

import asyncio

import pytest

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
