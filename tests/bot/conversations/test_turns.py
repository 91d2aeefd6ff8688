"""One attempt at a turn: its reply, its end, and what the next process finds."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from sqlalchemy import select, update

from bot.agent.messages import StopReason
from bot.agent.permissions import Permissions
from bot.agent.settings import AgentSettings
from bot.conversations.approvals import Approvals
from bot.conversations.compaction import Compaction
from bot.conversations.deciding import Deciders
from bot.conversations.notices import Notices
from bot.conversations.place_offers import PlaceOffers
from bot.conversations.settings import CatchUpSettings, ConversationSettings
from bot.conversations.turn_context import TurnContext
from bot.conversations.turn_messages import ThreadReader
from bot.conversations.turn_reply import STOPPED
from bot.conversations.turns import Turns
from bot.errors import DeliveryError, ModelError
from bot.events import AnnouncementDue, EventBus, TurnWaiting
from bot.subagents.active import ActiveRuns, CancelReason, Restarts
from bot.subagents.limits import SubagentSettings
from bot.subagents.runner import MAX_CRASHES, OUR_FAULT
from bot.tasks import Tasks
from bot.values import Identity
from db import outbox, tables
from db.database import Database
from db.steps import StepWriter
from tests.fakes.agents import FakeAgents
from tests.fakes.bank import no_role
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet
from tests.fakes.scripted_model import Hanging, Line, ScriptedModel, Streamed, says
from tests.fakes.stored import Stored


async def no_servers() -> tuple[str, ...]:
    return ()


@dataclass
class Worker:
    """A process that works on turns, with a platform and a scripted model."""

    database: Database
    clock: FakeClock
    user: Identity
    model: ScriptedModel = field(default_factory=ScriptedModel)
    outlet: FakeOutlet = field(default_factory=lambda: FakeOutlet("discord"))
    tasks: Tasks = field(default_factory=Tasks)
    due: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        events = EventBus()
        events.subscribe(AnnouncementDue, lambda event: self.due.append(event.key))
        events.subscribe(TurnWaiting, lambda event: self.waiting.append(event.conversation_id))
        settings = AgentSettings()
        self.turns = Turns(
            database=self.database,
            writer=StepWriter(self.database, self.tasks, worker_id="w"),
            tasks=self.tasks,
            outlets={"discord": self.outlet},
            events=events,
            active=ActiveRuns(),
            context=TurnContext(
                database=self.database,
                settings=settings,
                servers_away=no_servers,
                place_tools=dict,
                compaction=Compaction(
                    database=self.database,
                    main=lambda _: (self.model, "model"),
                    settings=settings,
                    now=self.clock,
                ),
                reader=ThreadReader(self.database, {}, ConversationSettings(), self.clock),
                now=self.clock,
            ),
            settings=settings,
            offers=PlaceOffers(
                database=self.database,
                settings=settings,
                agents=FakeAgents({}),
                guides=tuple,
                tools=tuple,
                permissions=Permissions,
                now=self.clock,
            ),
            runs=SubagentSettings(tool_timeout_seconds=10),
            approver=Approvals(
                self.database, {}, lambda _: None, events, self.clock, Deciders(no_role), self.tasks
            ),
            permissions=Permissions,
            main=lambda _: (self.model, "model"),
            notices=Notices({}, self.tasks),
            catch_up=CatchUpSettings(quote_after_minutes=60),
            restarts=Restarts(self.tasks),
            worker_id="w",
            now=self.clock,
        )

    async def asked(self, text: str = "How many sheep?", *, waits: float = 0) -> str:
        """Store a message with its turn, which is claimed; return the turn's id."""
        stored = Stored(self.database, self.clock)
        conversation_id = await stored.conversation(self.user)
        turn_id = await stored.turn(self.user, conversation_id, text)
        self.clock.advance(waits)
        assert await stored.claim_turn(conversation_id) == turn_id
        return turn_id

    async def answer(self, *script: Line, text: str = "How many sheep?") -> str:
        """Let a message be answered with the lines of a script; return the turn's id."""
        self.model = ScriptedModel(*script)
        turn_id = await self.asked(text)
        await self.turns.work(turn_id)
        return turn_id

    async def status(self, turn_id: str) -> str:
        async with self.database.snapshot() as tx:
            query = select(tables.turns.c.status).where(tables.turns.c.id == turn_id)
            return str(await tx.scalar(query))

    async def stored(self) -> list[tuple[str, str]]:
        """Return the role and text of each message, oldest first."""
        columns = (tables.messages.c.role, tables.messages.c.text)
        async with self.database.snapshot() as tx:
            rows = await tx.execute(select(*columns).order_by(tables.messages.c.id))
            return [(row.role, row.text) for row in rows]


@pytest.fixture
async def worker(database: Database, clock: FakeClock, alice: Identity) -> AsyncIterator[Worker]:
    worker = Worker(database, clock, alice)
    yield worker
    await worker.tasks.close()


async def test_a_reply_is_sent_and_stored_and_the_conversation_is_free(worker: Worker) -> None:
    turn_id = await worker.answer(says("Four sheep."))

    assert worker.outlet.texts() == ["Four sheep."]
    assert await worker.stored() == [("user", "How many sheep?"), ("assistant", "Four sheep.")]
    assert await worker.status(turn_id) == "done"
    assert (worker.due, worker.waiting) == ([], [])


async def test_the_end_of_a_turn_starts_the_next_one_that_waits(
    worker: Worker, alice: Identity
) -> None:
    turn_id = await worker.asked()
    stored = Stored(worker.database, worker.clock)
    conversation_id = await stored.conversation(alice)
    await stored.turn(alice, conversation_id, "And goats?")
    worker.model = ScriptedModel(says("Four sheep."))

    await worker.turns.work(turn_id)

    assert worker.waiting == [conversation_id]


async def test_a_reply_that_is_not_delivered_goes_to_the_outbox(worker: Worker) -> None:
    worker.outlet.fail_next("reply", DeliveryError("No."))

    turn_id = await worker.answer(says("Four sheep."))

    async with worker.database.snapshot() as tx:
        item = await outbox.get(tx, turn_id)
    assert item is not None
    assert (item.title, item.text) == ("↩ To “How many sheep?”", "Four sheep.")
    assert not item.maybe_repeated
    assert worker.due == [turn_id]


async def test_a_reply_with_an_unknown_fate_is_marked_as_a_possible_duplicate(
    worker: Worker,
) -> None:
    worker.outlet.fail_next("reply", DeliveryError("No.", fate_unknown=True), taken=True)

    turn_id = await worker.answer(says("Four sheep."))

    async with worker.database.snapshot() as tx:
        item = await outbox.get(tx, turn_id)
    assert item is not None
    assert item.maybe_repeated


async def test_a_stopped_turn_ends_with_its_text_so_far(worker: Worker) -> None:
    hanging = Hanging()
    worker.model = ScriptedModel(Streamed(["Four", "Four she"], hanging))
    turn_id = await worker.asked()
    working = asyncio.ensure_future(worker.turns.work(turn_id))
    await hanging.asked.wait()

    stored = Stored(worker.database, worker.clock)
    conversation_id = await stored.conversation(worker.user)
    next_id = await stored.turn(worker.user, conversation_id)
    worker.turns.active.stop(turn_id)
    await working

    assert worker.outlet.texts() == [f"Four she\n\n{STOPPED}"]
    assert await worker.status(turn_id) == "stopped"
    assert await stored.claim_turn(conversation_id) == next_id


async def test_a_turn_whose_reply_was_just_sent_is_over_although_the_process_ends_then(
    worker: Worker,
) -> None:
    worker.model = ScriptedModel(says("Four sheep."))
    turn_id = await worker.asked()
    worker.tasks.start(worker.turns.work(turn_id), name="a turn")
    await worker.outlet.replied()
    await worker.tasks.close()

    assert await worker.status(turn_id) == "done"


async def test_a_draining_process_leaves_its_turn_to_the_next(worker: Worker) -> None:
    hanging = Hanging()
    worker.model = ScriptedModel(hanging)
    turn_id = await worker.asked()
    working = asyncio.ensure_future(worker.turns.work(turn_id))
    await hanging.asked.wait()

    worker.turns.active.by_id[turn_id].reason = CancelReason.DRAINING
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working

    assert worker.outlet.replies[0].abandoned
    assert await worker.status(turn_id) == "running"
    assert await worker.stored() == [("user", "How many sheep?")]
    worker.model = ScriptedModel(says("Four sheep."))
    await worker.turns.work(turn_id)
    assert await worker.status(turn_id) == "done"


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ModelError("The model is away."), "The model is away."), (ZeroDivisionError(), OUR_FAULT)],
)
async def test_an_error_ends_the_turn_with_a_reason_for_the_user(
    worker: Worker, error: Exception, reason: str
) -> None:
    turn_id = await worker.answer(error)

    assert worker.outlet.texts() == [f"⚠ {reason}"]
    assert await worker.status(turn_id) == "failed"


async def test_messages_that_a_model_refused_are_not_sent_to_it_again(worker: Worker) -> None:
    await worker.answer(says("", stop=StopReason.REFUSAL))

    assert (await worker.stored())[-1] == ("reset", "")


async def test_a_turn_that_ends_its_process_again_and_again_is_given_up(worker: Worker) -> None:
    turn_id = await worker.asked()
    async with worker.database.transaction() as tx:
        await tx.execute(update(tables.turns).values(crashes=MAX_CRASHES))

    await worker.turns.work(turn_id)

    assert worker.model.requests == []
    assert f"{MAX_CRASHES} times in a row" in worker.outlet.texts()[0]
    assert await worker.status(turn_id) == "failed"


async def test_a_turn_that_another_process_took_over_changes_nothing(worker: Worker) -> None:
    hanging = Hanging()
    worker.model = ScriptedModel(hanging)
    turn_id = await worker.asked()
    working = asyncio.ensure_future(worker.turns.work(turn_id))
    await hanging.asked.wait()
    async with worker.database.transaction() as tx:
        await tx.execute(update(tables.turns).values(attempt=tables.turns.c.attempt + 1))

    hanging.released.set()
    await working

    assert worker.outlet.texts() == []
    assert worker.outlet.replies[0].abandoned
    assert await worker.stored() == [("user", "How many sheep?")]


async def test_the_answer_to_an_old_message_quotes_it(worker: Worker) -> None:
    worker.model = ScriptedModel(says("Four sheep."))
    turn_id = await worker.asked(waits=7_200)

    await worker.turns.work(turn_id)

    assert worker.outlet.texts() == ["> How many sheep?\n\nFour sheep."]
    assert (await worker.stored())[-1] == ("assistant", "Four sheep.")


async def test_a_turn_that_is_over_is_not_worked_on_again(worker: Worker) -> None:
    turn_id = await worker.answer(says("Four sheep."))

    await worker.turns.work(turn_id)

    assert len(worker.outlet.replies) == 1
