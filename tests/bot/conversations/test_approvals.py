"""One question about all calls of a step; a yes begins a turn that makes them once."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from sqlalchemy import select, update

from bot.agent.messages import ToolCall
from bot.agent.protocols import AskedCall
from bot.conversations.approvals import EXPIRES_AFTER, MOST_SHOWN, Approvals
from bot.conversations.deciding import ONLY_DENY, TAKES_ROLE, Deciders
from bot.errors import BotError
from bot.events import EventBus, TurnWaiting
from bot.platforms.base import ALWAYS_FOR, CommandReply
from bot.tasks import Tasks
from bot.values import Identity, Json, Place, Role
from db import standing_grants
from db.settings import DatabaseSettings
from db.tables import approvals as approvals_table
from db.tables import audit, messages, steps, turns
from skills.base import Effects, Tool, ToolContext, ToolError
from tests.fakes.clock import FakeClock
from tests.fakes.office import caller
from tests.fakes.outlet import FakeOutlet, LateOutlet
from tests.fakes.stored import Stored, room
from tests.fakes.watched_database import WatchedDatabase


async def post(_: ToolContext, __: Json) -> str:
    raise AssertionError("Only a turn makes the call.")


async def senseless(_: ToolContext, __: Json) -> tuple[Json, str]:
    raise ToolError("There is no such letter.")


MAIL = Tool(name="mail", description="", schema={}, run=post, effects=Effects.ONCE)
BURN = Tool(name="burn", description="", schema={}, run=post, prepare=senseless)


class Desk:
    """Confirmations of one tool."""

    def __init__(
        self, database: WatchedDatabase, clock: FakeClock, tasks: Tasks, outlet: FakeOutlet
    ) -> None:
        self.database, self.clock, self.outlet = database, clock, outlet
        self.stored = Stored(database, clock)
        self.woken: list[tuple[str, str]] = []
        events = EventBus()
        events.subscribe(
            TurnWaiting, lambda event: self.woken.append((event.conversation_id, event.platform))
        )
        self.approvals = Approvals(
            database,
            {"discord": self.outlet},
            {"mail": MAIL}.get,
            events,
            clock,
            Deciders(self._role_of),
            tasks,
        )
        self.leads: set[Identity] = set()

    async def _role_of(self, user: Identity, _: Place) -> str:
        return "lead" if user in self.leads else "user"

    async def ask(
        self, user: Identity, *calls: Json, tool: Tool = MAIL, approver: str = "", rule: str = ""
    ) -> Sequence[Json | BotError]:
        """Ask this user, or a role, about calls of one step."""
        conversation = await self.stored.conversation(user)
        asked = [
            AskedCall(
                tool=tool,
                call=ToolCall(f"call{number}", tool.name, arguments),
                context=ToolContext(
                    user=user,
                    role=Role.USER,
                    place=room(user),
                    conversation_id=conversation,
                    work_id="turn",
                    call_id=f"1.{number}",
                    run_id=None,
                    now=self.clock,
                ),
                reason="it must be so",
                approver=approver,
                rule=rule,
            )
            for number, arguments in enumerate(calls)
        ]
        return await self.approvals.ask(asked)

    async def answer(self, user: Identity, *, yes: bool = True) -> CommandReply:
        question = await self.outlet.asked()
        reply = await self.approvals.answer(
            caller(user), question.id, choice="yes" if yes else "no"
        )
        assert reply is not None
        return reply

    async def begun(self) -> list[tuple[str, list[Json]]]:
        """Return the turns that there are: the kind of each, and the calls that it begins with."""
        async with self.database.snapshot() as tx:
            rows = await tx.execute(
                select(turns.c.kind, steps.c.body).outerjoin(steps, steps.c.work_id == turns.c.id)
            )
            return [(row.kind, row.body["answer"]["calls"] if row.body else []) for row in rows]


@pytest.fixture
async def database(database_settings: DatabaseSettings) -> AsyncIterator[WatchedDatabase]:
    async with WatchedDatabase.open(database_settings) as opened:
        yield opened


@pytest.fixture
async def desk(database: WatchedDatabase, clock: FakeClock) -> AsyncIterator[Desk]:
    async with Tasks() as tasks:
        yield Desk(database, clock, tasks, FakeOutlet("discord"))


async def test_one_question_shows_all_calls_of_a_step_whole(desk: Desk, alice: Identity) -> None:
    long = "git status; " + "x" * 4000 + "; rm -rf *; " + "y" * 4000

    told = await desk.ask(alice, {"to": "Bob"}, {"to": long})

    question = await desk.outlet.asked()
    assert '1. `mail(to="Bob")`' in question.text
    assert long in question.text
    assert "I ask because it must be so." in question.text
    assert [each["status"] for each in told if isinstance(each, dict)] == ["confirmation_asked"] * 2


async def test_a_yes_begins_a_turn_with_the_calls_and_only_once(
    desk: Desk, alice: Identity
) -> None:
    await desk.ask(alice, {"to": "Bob"}, {"to": "Eve"})

    first, second = await desk.answer(alice), await desk.answer(alice)

    ((kind, made),) = await desk.begun()
    assert kind == "confirmed"
    assert [(each["name"], each["arguments"]) for each in made] == [
        ("mail", {"to": "Bob"}),
        ("mail", {"to": "Eve"}),
    ]
    assert (first.failed, second.refused) == (False, True)
    assert desk.woken == [(await desk.stored.conversation(alice), "discord")]


async def test_a_no_or_no_answer_begins_nothing_and_is_remembered(
    desk: Desk, clock: FakeClock, alice: Identity
) -> None:
    await desk.ask(alice, {"to": "<Bob>"})
    denied = await desk.answer(alice, yes=False)
    await desk.ask(alice, {"to": "Bob"}, {"to": "Eve"})
    clock.advance(EXPIRES_AFTER.total_seconds() + 1)
    await desk.approvals.expire()

    async with desk.database.snapshot() as tx:
        texts = list(await tx.scalars(select(messages.c.text).order_by(messages.c.id)))
    assert denied.text.startswith("Not done: ")
    assert await desk.begun() == []
    assert ["said no" in texts[0], "did not answer in time" in texts[1]] == [True, True]
    assert "&lt;Bob&gt;" in texts[0]


async def test_another_user_cannot_answer(desk: Desk, alice: Identity, bob: Identity) -> None:
    await desk.ask(alice, {"to": "Bob"})

    assert (await desk.answer(bob)).refused
    assert await desk.begun() == []


async def test_calls_that_are_not_those_that_were_shown_are_not_made(
    desk: Desk, alice: Identity
) -> None:
    await desk.ask(alice, {"to": "Bob"})
    async with desk.database.transaction() as tx:
        (stored,) = await tx.scalars(select(approvals_table.c.context))
        other = stored | {"calls": [{"tool": "mail", "arguments": {"to": "Mallory"}}]}
        await tx.execute(update(approvals_table).values(context=other))

    assert (await desk.answer(alice)).refused
    assert await desk.begun() == []


async def test_a_call_that_makes_no_sense_is_told_and_not_asked(
    desk: Desk, alice: Identity
) -> None:
    (told,) = await desk.ask(alice, {}, tool=BURN)

    assert str(told) == "There is no such letter."
    assert desk.outlet.questions == []


async def test_a_question_too_long_to_be_shown_whole_is_refused(
    desk: Desk, alice: Identity
) -> None:
    (told,) = await desk.ask(alice, {"to": "x" * MOST_SHOWN})

    assert "too long to be shown" in str(told)
    assert desk.outlet.questions == []


async def test_a_confirmation_is_answered_by_its_owner_or_an_admin_and_by_nobody_else(
    desk: Desk, alice: Identity, bob: Identity
) -> None:
    await desk.stored.person(bob)
    await desk.ask(alice, {"to": "Bob"})
    question = await desk.outlet.asked()
    answer = desk.approvals.answer

    stranger = await answer(caller(bob), question.id, choice="no")
    admin = await answer(caller(bob, role=Role.OPERATOR), question.id, choice="no")

    assert stranger is not None
    assert stranger.refused
    assert stranger == await answer(caller(bob), "0" * 32, choice="no")
    assert admin is not None
    assert not admin.refused
    async with desk.database.snapshot() as tx:
        rows = await tx.execute(select(audit))
        noted = [(row.user_id, row.action, row.owner_id, row.subject) for row in rows]
    assert noted == [(bob.key, "deny", alice.key, "mail")]


async def test_an_admin_may_deny_and_not_allow(desk: Desk, alice: Identity, bob: Identity) -> None:
    await desk.stored.person(bob)
    await desk.ask(alice, {"to": "Bob"})
    question, admin = await desk.outlet.asked(), caller(bob, role=Role.OPERATOR)

    allowed = await desk.approvals.answer(admin, question.id, choice="yes")
    denied = await desk.approvals.answer(admin, question.id, choice="no")

    assert allowed is not None
    assert denied is not None
    assert (allowed.refused, allowed.text) == (True, ONLY_DENY)
    assert not denied.refused
    assert await desk.begun() == []


async def test_a_role_decides_where_a_rule_says_so_and_the_owner_may_only_say_no(
    desk: Desk, alice: Identity, bob: Identity
) -> None:
    await desk.stored.person(bob)
    desk.leads.add(bob)
    await desk.ask(alice, {"to": "Bob"}, approver="lead")
    question = await desk.outlet.asked()

    mine = await desk.answer(alice)
    before = desk.database.transactions
    theirs = await desk.answer(bob)

    assert "A member of the role `lead` decides." in question.text
    assert (mine.refused, mine.text) == (True, TAKES_ROLE.format(role="lead"))
    assert not theirs.refused
    assert desk.database.transactions == before + 1
    async with desk.database.snapshot() as tx:
        noted = await tx.execute(select(audit.c.user_id, audit.c.action, audit.c.owner_id))
        assert [tuple(row) for row in noted] == [(bob.key, "approve", alice.key)]
        said = list(await tx.scalars(select(messages.c.text)))
    assert [kind for kind, _ in await desk.begun()] == ["confirmed"]
    assert any("Another user, with the role `lead`, said yes to" in text for text in said)


async def test_a_member_of_the_role_decides_about_a_call_of_their_own(
    desk: Desk, alice: Identity
) -> None:
    desk.leads.add(alice)
    await desk.ask(alice, {"to": "Bob"}, approver="lead", rule="mail:bob*: ask:lead")
    await desk.outlet.asked()

    reply = await desk.answer(alice)

    assert not reply.refused
    assert [kind for kind, _ in await desk.begun()] == ["confirmed"]


async def test_always_answers_the_rule_for_later_calls_until_a_date(
    desk: Desk, alice: Identity, bob: Identity
) -> None:
    await desk.stored.person(bob)
    desk.leads.add(bob)
    rule = "mail:bob*: ask:lead"
    await desk.ask(alice, {"to": "Bob"}, approver="lead", rule=rule)
    question, until = await desk.outlet.asked(), desk.clock() + ALWAYS_FOR

    reply = await desk.approvals.answer(caller(bob), question.id, choice="always")

    assert [each.label for each in question.choices] == [
        "Yes",
        "Always, for 30 days",
        "No",
    ]
    assert reply is not None
    assert f"Until {until:%d %b} such calls are not asked about here again" in reply.text
    async with desk.database.snapshot() as tx:
        (given,) = await standing_grants.of_user(tx, alice.key, desk.clock())
        elsewhere = Place("discord", "70010", "room")
        now = desk.clock()
        here = await standing_grants.of_server(tx, alice.key, room(alice), now)
        there = await standing_grants.of_server(tx, alice.key, elsewhere, now)
        later = await standing_grants.of_server(tx, alice.key, room(alice), until)
    assert (given.rule, given.granted_by, given.expires_at) == (rule, bob.key, until)
    assert (here, there, later) == ([given], [], [])
    assert given.approver == "lead"


async def test_without_a_rule_there_is_no_always(desk: Desk, alice: Identity) -> None:
    await desk.ask(alice, {"to": "Bob"})
    question = await desk.outlet.asked()

    reply = await desk.approvals.answer(caller(alice), question.id, choice="always")

    assert [each.key for each in question.choices] == ["yes", "no"]
    assert reply is not None
    assert reply.refused
    assert await desk.begun() == []


async def test_an_open_question_names_the_message_that_shows_it(
    desk: Desk, alice: Identity
) -> None:
    await desk.ask(alice, {"to": "Bob"})
    question = await desk.outlet.asked()

    (waiting,) = await desk.approvals.waiting(alice, room(alice))

    assert waiting.id == question.id
    assert waiting.message_id == "question-1"


async def test_a_question_that_is_being_posted_when_its_turn_is_cancelled_is_known_to_the_next(
    database: WatchedDatabase, clock: FakeClock, alice: Identity
) -> None:
    outlet = LateOutlet("discord")
    async with Tasks() as tasks:
        desk = Desk(database, clock, tasks, outlet)
        turn = tasks.start(desk.ask(alice, {"to": "Bob"}), name="a turn")
        await outlet.asked()
        turn.cancel()
        outlet.released.set()
        await asyncio.wait({turn})
        (waiting,) = await desk.approvals.waiting(alice, room(alice))
        await desk.ask(alice, {"to": "Bob"})

    assert turn.cancelled()
    assert waiting.message_id == "question-1"
    # The platform posts no second message for it.
    assert [each.message_id for each in outlet.questions] == ["", "question-1"]
