"""A confirmed call is made once and comes to an end, or its person hears that it may have run."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from sqlalchemy import select

from bot.agent.messages import ToolCall
from bot.conversations.approvals import LOST_AFTER, MAY_HAVE_RUN, Approvals
from bot.platforms.base import CommandReply
from bot.tasks import Tasks
from bot.values import Identity, Json, Role
from db.database import Database
from db.tables import audit, messages
from skills.base import Effects, Tool, ToolContext
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet
from tests.fakes.stored import Stored, room

LATER = LOST_AFTER.total_seconds() + 1


class Desk:
    """Confirmations of one tool, which never ends by itself."""

    def __init__(self, database: Database, clock: FakeClock, tasks: Tasks) -> None:
        self.database, self.clock, self.tasks = database, clock, tasks
        self.outlet = FakeOutlet("discord")
        self.begun = asyncio.Event()
        self.calls = 0
        self.tool = Tool(
            name="mail", description="", schema={}, run=self._post, effects=Effects.ONCE
        )
        self.stored = Stored(database, clock)
        self.approvals = self.process()

    async def _post(self, _: ToolContext, __: Json) -> str:
        self.calls += 1
        self.begun.set()
        await asyncio.Event().wait()
        return "Posted."

    def process(self) -> Approvals:
        """Return what a process that starts now has."""
        outlets = {"discord": self.outlet}
        return Approvals(self.database, outlets, lambda _: self.tool, now=self.clock)

    async def ask(self, user: Identity) -> None:
        """Ask this person for a yes."""
        context = ToolContext(
            user=user,
            role=Role.USER,
            place=room(user),
            conversation_id=await self.stored.conversation(user),
            work_id="turn",
            call_id="1.0",
            run_id=None,
            now=self.clock,
        )
        await self.approvals.ask(self.tool, ToolCall("1", "mail", {"to": "Bob"}), context)

    async def yes(self, user: Identity) -> CommandReply:
        """Press yes, and wait for what it comes to."""
        question = await self.outlet.asked()
        reply = await self.approvals.answer(user, Role.USER, question.id, yes=True)
        assert reply is not None
        return reply

    async def remembered(self) -> list[str]:
        """Return what the main agent will know of it."""
        async with self.database.snapshot() as tx:
            return list(await tx.scalars(select(messages.c.text)))


@pytest.fixture
async def desk(database: Database, clock: FakeClock) -> AsyncIterator[Desk]:
    tasks = Tasks()
    yield Desk(database, clock, tasks)
    await tasks.close()


async def test_a_confirmed_call_has_the_time_limit_of_its_tool(
    desk: Desk, clock: FakeClock, alice: Identity
) -> None:
    desk.tool = replace(desk.tool, timeout_seconds=0.1)
    await desk.ask(alice)
    async with asyncio.timeout(10):
        reply = await desk.yes(alice)
    clock.advance(LATER)
    await desk.process().expire()

    assert reply.failed
    assert reply.text == "mail did not answer within 0.1 seconds; it may have run."
    assert desk.outlet.told == []
    assert [reply.text in text for text in await desk.remembered()] == [True]


async def test_of_a_confirmed_call_whose_process_ended_it_is_told_once_that_it_may_have_run(
    desk: Desk, clock: FakeClock, alice: Identity
) -> None:
    await desk.ask(alice)
    work = desk.tasks.start(desk.yes(alice), name="yes")
    async with asyncio.timeout(10):
        await desk.begun.wait()
    work.cancel()  # as when its process ends
    await asyncio.wait({work})
    await desk.process().expire()
    too_early = list(desk.outlet.told)
    clock.advance(LATER)
    for _ in range(2):
        await desk.process().expire()

    assert too_early == []
    assert [(told.user, MAY_HAVE_RUN in told.text) for told in desk.outlet.told] == [(alice, True)]
    assert [MAY_HAVE_RUN in text for text in await desk.remembered()] == [True]
    assert desk.calls == 1


async def test_a_call_that_is_still_being_made_here_is_not_told_as_lost(
    desk: Desk, clock: FakeClock, alice: Identity
) -> None:
    await desk.ask(alice)
    desk.tasks.start(desk.yes(alice), name="yes")
    async with asyncio.timeout(10):
        await desk.begun.wait()
    clock.advance(LATER)
    await desk.approvals.expire()

    assert desk.outlet.told == []
    assert await desk.remembered() == []


async def test_what_expired_or_was_denied_is_never_told_as_begun(
    desk: Desk, clock: FakeClock, alice: Identity
) -> None:
    await desk.ask(alice)
    clock.advance(LATER)
    for _ in range(2):
        await desk.approvals.expire()
        clock.advance(LATER)
    reply = await desk.yes(alice)

    assert reply.refused
    assert (desk.calls, desk.outlet.told) == (0, [])
    assert ["did not answer in time" in text for text in await desk.remembered()] == [True]


async def test_a_confirmation_is_answered_by_its_owner_or_an_admin_and_by_nobody_else(
    desk: Desk, alice: Identity, bob: Identity
) -> None:
    await desk.stored.person(bob)
    await desk.ask(alice)
    question = await desk.outlet.asked()
    answer = desk.approvals.answer

    stranger = await answer(bob, Role.USER, question.id, yes=False)
    admin = await answer(bob, Role.ADMIN, question.id, yes=False)

    assert stranger is not None
    assert stranger.refused
    assert stranger == await answer(bob, Role.USER, "0" * 32, yes=False)
    assert admin is not None
    assert not admin.refused
    async with desk.database.snapshot() as tx:
        rows = await tx.execute(select(audit))
        noted = [(row.user_id, row.action, row.subject) for row in rows]
    assert noted == [(bob.key, "answer", question.id)]
