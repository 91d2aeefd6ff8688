"""What is old is forgotten in time, and nothing earlier."""

from dataclasses import fields
from typing import Any

from bot.conversations.upkeep import Upkeep
from bot.subagents.limits import SubagentSettings
from bot.subagents.retention import RetentionSettings
from bot.values import File, Identity
from db import conversations, files, todos
from db.database import Database
from db.tables import files as table
from db.tables import messages, schedules
from db.tables import todos as todo_lists
from db.todos import Todo
from tests.fakes.clock import FakeClock
from tests.fakes.engine import FakeEngine
from tests.fakes.office import FakeOffice
from tests.fakes.planned import Plans
from tests.fakes.stored import Stored


def upkeep(database: Database, clock: FakeClock, retention: RetentionSettings) -> Upkeep:
    """Return the duties, with the parts that forgetting takes."""
    settings = SubagentSettings()
    parts: dict[str, Any] = {
        field.name: None for field in fields(Upkeep) if field.name != "heartbeat"
    }
    parts |= {
        "database": database,
        "engine": FakeEngine(),
        "endings": FakeOffice(database, settings, clock).endings,
        "settings": settings,
        "retention": retention,
        "now": clock,
    }
    return Upkeep(**parts)


async def test_files_are_forgotten_after_their_days_and_their_messages_are_not(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    stored, cat = Stored(database, clock), File("cat.png", "image/png", b"\x89PNG")
    conversation = await stored.conversation(alice)
    async with database.transaction() as tx:
        message = await conversations.say(tx, conversation, role="user", text="Look", now=clock())
        await files.put(tx, message, [cat], clock())
    duties = upkeep(database, clock, RetentionSettings(files_days=2))

    clock.advance(47 * 3600)
    await duties.clean_up()
    kept = await stored.count(table)
    clock.advance(2 * 3600)
    await duties.clean_up()

    assert kept == 1
    assert await stored.count(table) == 0
    assert await stored.count(messages) == 1


async def test_schedules_that_are_over_and_old_lists_are_forgotten_with_the_runs(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    plans = Plans(database, clock)
    await plans.plan(alice, at="in 1 hour")
    await plans.plan(alice, cron="0 9 * * *")
    await plans.cancel(1, alice)
    async with database.transaction() as tx:
        await todos.write(tx, "c1", alice.key, [Todo("Rest", "pending")], clock())
    duties = upkeep(database, clock, RetentionSettings(runs_days=2))

    clock.advance(47 * 3600)
    await duties.clean_up()
    kept = await Stored(database, clock).counts([schedules, todo_lists])
    clock.advance(2 * 3600)
    await duties.clean_up()

    assert kept == {"schedules": 2, "todos": 1}
    assert await Stored(database, clock).counts([schedules, todo_lists]) == {
        "schedules": 1,
        "todos": 0,
    }
