"""What is old is forgotten in time, and nothing earlier."""

from dataclasses import fields
from typing import Any

from bot.conversations.upkeep import Upkeep
from bot.subagents.limits import SubagentSettings
from bot.subagents.retention import RetentionSettings
from bot.values import File, Identity
from db import conversations, files
from db.database import Database
from db.tables import files as table
from db.tables import messages
from tests.fakes.clock import FakeClock
from tests.fakes.engine import FakeEngine
from tests.fakes.office import FakeOffice
from tests.fakes.stored import Stored


def upkeep(database: Database, clock: FakeClock, retention: RetentionSettings) -> Upkeep:
    """Return the duties, with the parts that forgetting takes."""
    settings = SubagentSettings()
    parts: dict[str, Any] = {field.name: None for field in fields(Upkeep) if field.name != "pulse"}
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
