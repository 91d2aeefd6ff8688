"""The work of users ends in the places to which they have lost access."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from bot.conversations.access import AccessSettings
from bot.conversations.lost_access import CHECK_EVERY, LostAccess
from bot.conversations.pairing import Pairings
from bot.conversations.rights import FRESH, Memberships, RightsDirectory
from bot.conversations.upkeep import SWEEP_SECONDS
from bot.platforms.reading import Membership
from bot.rights.settings import RolesSettings
from bot.subagents.active import ActiveRuns
from bot.values import Identity, Place, RunStatus
from db.audit import SYSTEM
from db.database import Database
from db.rows import place_columns
from db.tables import audit, schedules, subagent_runs, turns
from tests.fakes.clock import FakeClock
from tests.fakes.office import FakeOffice, limits
from tests.fakes.outlet import FakeOutlet
from tests.fakes.planned import Plans
from tests.fakes.stored import Stored

HERE, THERE = Place("discord", "70010", "80010"), Place("discord", "70020", "80020")


@pytest.fixture
def outlet() -> FakeOutlet:
    return FakeOutlet("discord")


@pytest.fixture
def watch(database: Database, clock: FakeClock, outlet: FakeOutlet) -> LostAccess:
    office = FakeOffice(database, limits(), clock)
    return LostAccess(
        database=database,
        directory=RightsDirectory(
            settings=RolesSettings(),
            memberships=Memberships({"discord": outlet}, clock),
            expand=frozenset,
            access=AccessSettings(),
            direct=lambda _: "members",
            pairings=Pairings(database, clock),
            database=database,
            now=clock,
        ),
        endings=office.endings,
        active=ActiveRuns(),
        turns=ActiveRuns(),
        platforms=["discord"],
        now=clock,
    )


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)


async def give_work(stored: Stored, plans: Plans, user: Identity, place: Place) -> None:
    """Give a user a queued and a running run, a turn and a schedule in a place."""
    at, database = place_columns(place), stored.database
    for status in ("queued", "running"):
        await stored.run(user, status=status, **at)
    planned = await plans.plan(user, cron="0 9 * * *")
    turn = await stored.turn(user, await stored.conversation(user))
    async with database.transaction() as tx:
        this = schedules.c.id == planned.schedule.id
        await tx.execute(schedules.update().where(this).values(**at))
        await tx.execute(turns.update().where(turns.c.id == turn).values(status="running", **at))


async def states(database: Database) -> list[tuple[Any, ...]]:
    async with database.snapshot() as tx:
        found = [
            *await tx.execute(
                select(subagent_runs.c.place_workspace, subagent_runs.c.status,
                       subagent_runs.c.cancel_requested_at.is_not(None))
            ),
            *await tx.execute(select(schedules.c.place_workspace, schedules.c.status)),
            *await tx.execute(
                select(turns.c.place_workspace, turns.c.stop_requested_at.is_not(None))
            ),
        ]  # fmt: skip
    return sorted((tuple(row) for row in found), key=str)


async def test_what_a_user_started_in_a_server_ends_when_they_leave_it_and_nothing_else(
    watch: LostAccess,
    outlet: FakeOutlet,
    stored: Stored,
    clock: FakeClock,
    database: Database,
    alice: Identity,
    bob: Identity,
) -> None:
    plans = Plans(database, clock)
    for place in (HERE, THERE):
        await give_work(stored, plans, alice, place)
    await stored.run(bob, status="running", **place_columns(HERE))

    await watch.end_lost()
    before = await states(database)
    outlet.members[alice, "70010"] = Membership(present=False)
    clock.advance(FRESH.total_seconds())
    await watch.end_lost()

    assert len(before) == 9
    assert not any(True in row or "cancelled" in row for row in before)
    expected = [
        ("70010", True),
        ("70010", "cancelled"),
        ("70010", "cancelled", True),
        ("70010", "running", False),
        ("70010", "running", True),
        ("70020", False),
        ("70020", "active"),
        ("70020", "accepted", False),
        ("70020", "running", False),
    ]
    assert await states(database) == sorted(expected, key=str)
    async with database.snapshot() as tx:
        rows = await tx.execute(select(audit))
        noted = [(row.user_id, row.action, row.owner_id, row.subject) for row in rows]
    assert noted == [(SYSTEM, "access lost", alice.key, "discord:70010:80010")]


async def test_work_ends_within_five_minutes_of_the_loss_of_access(
    watch: LostAccess, outlet: FakeOutlet, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run = await stored.run(alice, status="running", **place_columns(HERE))
    # The membership was read a moment before it is lost, and the owners were checked then.
    await watch.end_lost()
    outlet.members[alice, "70010"] = Membership(present=False)
    lost_at = clock()

    while (await stored.read_run(run.id)).cancel_requested_at is None:
        clock.advance(SWEEP_SECONDS)
        await watch.end_lost()
        assert clock() - lost_at < timedelta(minutes=5)


class OddOutlet(FakeOutlet):
    """An outlet whose platform answers with nonsense about one user."""

    async def membership(self, user: Identity, place: Place, *, groups: bool = True) -> Membership:
        if user.account == "2":
            raise KeyError("roles")
        return Membership(present=False)


async def test_an_odd_answer_about_one_owner_keeps_nobody_elses_access(
    watch: LostAccess,
    stored: Stored,
    clock: FakeClock,
    alice: Identity,
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd = Identity("discord", "", "2")
    for user in (odd, alice):
        await stored.run(user, status="running", **place_columns(HERE))
    memberships = Memberships({"discord": OddOutlet("discord")}, clock)

    await replace(watch, directory=replace(watch.directory, memberships=memberships)).end_lost()

    found = [row for row in await states(stored.database) if row[1] == "running"]
    assert found == [("70010", "running", False), ("70010", "running", True)]
    assert f"The access of {odd.key} could not be checked" in caplog.text


async def test_the_end_of_access_is_recorded_once_by_all_processes(
    watch: LostAccess,
    outlet: FakeOutlet,
    stored: Stored,
    clock: FakeClock,
    database: Database,
    alice: Identity,
) -> None:
    await give_work(stored, Plans(database, clock), alice, HERE)
    # It waits for the end of a pause, for instance, and is refused when it begins.
    waiting = await stored.turn(alice, await stored.conversation(alice))
    async with database.transaction() as tx:
        at = place_columns(HERE)
        await tx.execute(turns.update().where(turns.c.id == waiting).values(**at))
    outlet.members[alice, "70010"] = Membership(present=False)

    async with asyncio.TaskGroup() as group:
        for each in (watch, *(replace(watch) for _ in range(2))):
            group.create_task(each.end_lost())
    clock.advance(CHECK_EVERY.total_seconds())
    await watch.end_lost()

    async with database.snapshot() as tx:
        assert len((await tx.execute(select(audit))).all()) == 1


async def test_the_owners_are_checked_once_a_minute(
    watch: LostAccess, outlet: FakeOutlet, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    await stored.run(alice, status=str(RunStatus.RUNNING), **place_columns(HERE))

    for _ in range(3):
        await watch.end_lost()
    clock.advance(CHECK_EVERY.total_seconds())
    await watch.end_lost()
    clock.advance(CHECK_EVERY.total_seconds())
    await watch.end_lost()

    assert outlet.looked_up == [(alice, "70010")] * 2
