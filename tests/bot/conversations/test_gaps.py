"""Where to read after a gap, and since when."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest
from sqlalchemy import select

from bot.conversations import orchestrator
from bot.conversations.orchestrator import MARGIN, Orchestrator
from bot.conversations.settings import CatchUpSettings
from bot.platforms.base import Incoming
from bot.values import Identity, Place
from db import conversations, turns
from db.database import Database, DatabaseSettings
from db.tables import messages
from tests.bot.conversations.hearing import Process, message, opened
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored
from tests.fakes.watched_database import WatchedDatabase

ALICE = Identity("discord", "", "1001")


def gaps(database: Database, clock: FakeClock, **settings: object) -> Orchestrator:
    catch_up = CatchUpSettings.model_validate(settings)
    process = Process(cast("WatchedDatabase", database), clock)
    return replace(process.orchestrator, catch_up=catch_up)


async def said_in(database: Database, place: Place, clock: FakeClock, *roles: str) -> None:
    await Stored(database, clock).person(ALICE)
    async with database.transaction() as tx:
        talk = await conversations.find_or_open(tx, ALICE, place, clock())
        for role in roles:
            await conversations.say(tx, talk, role=role, text="Hm.", now=clock())


async def test_at_the_first_start_ever_nothing_was_missed(
    database: Database, clock: FakeClock
) -> None:
    known = gaps(database, clock)

    assert await known.missed("discord", "discord") is None
    clock.advance(60)
    missed = await known.missed("discord", "discord")
    assert missed is not None
    assert missed.since == clock() - timedelta(seconds=60) - MARGIN


@pytest.mark.parametrize(("away", "back"), [(600, 600), (36_000, 3_600)])
async def test_it_is_read_since_the_last_mark_and_at_most_an_hour_back(
    database: Database, clock: FakeClock, away: int, back: int
) -> None:
    known = gaps(database, clock)
    await known.listening("discord")
    clock.advance(away)

    missed = await known.missed("discord", "discord")

    assert missed is not None
    margin = MARGIN if back == away else timedelta()
    assert missed.since == clock() - timedelta(seconds=back) - margin
    assert (missed.most_places, missed.most_messages) == (100, 50)


async def test_another_connection_does_not_know_what_this_one_heard(
    database: Database, clock: FakeClock
) -> None:
    known = gaps(database, clock)
    await known.listening("discord:0")

    assert await known.missed("discord", "discord:1") is None


async def test_it_can_be_switched_off(database: Database, clock: FakeClock) -> None:
    known = gaps(database, clock, enabled=False)
    await known.listening("discord")

    assert await known.missed("discord", "discord") is None


async def test_places_are_direct_messages_and_where_the_bot_spoke_lately_latest_first(
    database: Database, clock: FakeClock
) -> None:
    old = Place("discord", "guild", "old")
    await said_in(database, old, clock, "user", "assistant")
    direct = Place("discord", "", "direct")
    await said_in(database, direct, clock, "user")
    clock.advance(8 * 86_400)
    silent = Place("discord", "guild", "silent")
    await said_in(database, silent, clock, "user", "result")
    thread = Place("discord", "guild", "room", "thread")
    await said_in(database, thread, clock, "user", "assistant")
    clock.advance(60)
    newer = Place("discord", "guild", "newer")
    await said_in(database, newer, clock, "user", "assistant")
    await said_in(database, Place("slack", "T1", "C1"), clock, "user", "assistant")
    known = gaps(database, clock)
    await known.listening("discord")

    missed = await known.missed("discord", "discord")

    assert missed is not None
    assert list(missed.places) == [newer, thread, replace(thread, thread=""), direct]


async def test_direct_messages_on_slack_are_read_however_old_they_are(
    database: Database, clock: FakeClock
) -> None:
    direct = Place("slack", "T1", "D1", "1.0")
    await said_in(database, direct, clock, "user", "assistant")
    await said_in(database, Place("slack", "T1", "C1"), clock, "user", "assistant")
    clock.advance(8 * 86_400)
    known = gaps(database, clock)
    await known.listening("slack")

    missed = await known.missed("slack", "slack")

    assert missed is not None
    assert list(missed.places) == [direct, replace(direct, thread="")]


async def test_a_missed_message_waits_while_this_process_is_busy_and_a_new_one_does_not(
    database_settings: DatabaseSettings,
    clock: FakeClock,
    alice: Identity,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(orchestrator, "ROOM_SECONDS", 0.001)
    async with opened(database_settings, clock) as process:
        busy, receive = process.orchestrator.turns, process.orchestrator.receive
        for number in range(orchestrator.MISSED_TURNS):
            busy.enter(str(number))
        missed = asyncio.ensure_future(receive(late(alice, "Missed", said_at=clock())))
        await asyncio.sleep(0)
        await receive(message(alice, "New"))
        await process.started_turns()
        waits = not missed.done()
        busy.by_id.popitem()
        await missed
        async with process.database.snapshot() as tx:
            stored = list(await tx.scalars(select(messages.c.text).order_by(messages.c.id)))

    assert waits
    assert stored == ["New", "Missed"]


async def test_of_a_missed_message_it_is_kept_when_it_was_said(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity
) -> None:
    async with opened(database_settings, clock) as process:
        said_at = clock() - timedelta(minutes=30)
        await process.orchestrator.receive(late(alice, "Hello", said_at=said_at))
        (turn_id,) = await process.started_turns()
        async with process.database.snapshot() as tx:
            turn = await turns.get(tx, turn_id)

    assert turn is not None
    assert turn.sent_at == said_at


@pytest.mark.parametrize(("minutes", "quoted"), [(11, True), (9, False)])
async def test_the_answer_to_an_old_command_quotes_it(
    database_settings: DatabaseSettings,
    clock: FakeClock,
    alice: Identity,
    minutes: int,
    quoted: bool,
) -> None:
    async with opened(database_settings, clock) as process:
        said_at = clock() - timedelta(minutes=minutes)
        reply = await process.orchestrator.receive(late(alice, "/subagents list", said_at=said_at))

    assert reply is not None
    assert reply.text.startswith("> /subagents list\n\n") is quoted


async def test_a_message_that_was_delivered_and_is_fetched_is_one_turn(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity
) -> None:
    async with opened(database_settings, clock) as process:
        said = message(alice, "Hello", event_id="message::room:m1")
        await process.orchestrator.receive(said)
        await process.orchestrator.receive(replace(said, said_at=clock()))

        assert len(await process.started_turns()) == 1


def late(user: Identity, text: str, **changes: object) -> Incoming:
    return replace(message(user, text), **changes)  # type: ignore[arg-type]
