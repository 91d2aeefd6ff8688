"""Each skill stores documents under keys of its own, up to a quota."""

import pytest

from bot.errors import ToolError
from db import skill_data
from db.database import Database
from skills.services import MemoryStore, Store
from skills.store import SkillStore
from tests.fakes.clock import FakeClock


@pytest.fixture(params=["database", "memory"])
def store(request: pytest.FixtureRequest, database: Database, clock: FakeClock) -> Store:
    return MemoryStore() if request.param == "memory" else SkillStore(database, "trips", clock)


async def test_a_value_is_read_back_replaced_and_deleted(store: Store) -> None:
    value = {"to": "北京 🙂", "days": [1, 2.5], "open": True, "none": None}

    await store.set("next", {"to": "Rome"})
    await store.set("next", value)
    assert await store.get("next") == value
    assert await store.delete("next")

    assert await store.get("next") is None
    assert not await store.delete("next")


async def test_keys_are_listed_by_their_beginning(store: Store) -> None:
    for key in ("b/%", "a", "b/1", "B/2"):
        await store.set(key, key)

    assert await store.list("b/") == ["b/%", "b/1"]
    assert await store.list() == ["B/2", "a", "b/%", "b/1"]
    assert await store.list("%") == []


async def test_no_skill_reaches_the_data_of_another(database: Database, clock: FakeClock) -> None:
    mine, other = SkillStore(database, "mine", clock), SkillStore(database, "other", clock)
    await mine.set("key", "value")

    assert (await other.get("key"), await other.list()) == (None, [])
    assert not await other.delete("key")
    assert await mine.get("key") == "value"


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), "\0", {"\0": 1}, "\ud800", object()])
async def test_what_no_database_takes_is_refused(
    database: Database, clock: FakeClock, value: object
) -> None:
    store = SkillStore(database, "mine", clock)

    with pytest.raises(ToolError, match="What belongs under 'key'"):
        await store.set("key", value)
    await store.set("key", "a \\u0000 in plain text")
    assert await store.get("key") == "a \\u0000 in plain text"


@pytest.mark.parametrize("key", ["", "k" * 201])
async def test_a_key_has_1_to_200_characters(
    database: Database, clock: FakeClock, key: str
) -> None:
    with pytest.raises(ToolError, match="1 to 200 characters"):
        await SkillStore(database, "mine", clock).set(key, 1)


async def test_past_its_quota_a_skill_stores_nothing_more_and_replaces_what_it_has(
    database: Database, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skill_data, "MOST_KEYS", 2)
    monkeypatch.setattr(skill_data, "MOST_CHARACTERS", 100)
    store = SkillStore(database, "mine", clock)
    for key in ("a", "b"):
        await store.set(key, "x" * 30)

    with pytest.raises(ToolError, match="The skill mine may store"):
        await store.set("c", 1)
    with pytest.raises(ToolError, match="delete something first"):
        await store.set("a", "x" * 80)
    await store.set("a", "x" * 40)
    await SkillStore(database, "other", clock).set("c", "x" * 80)

    assert await store.list() == ["a", "b"]
