"""The page on a new platform (docs/platforms.md) names all that a platform implements."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.conversations.access import AccessSettings, account_in, is_channel, is_private, place_named
from bot.conversations.pause_lines import where_text
from bot.platforms import catalog
from bot.platforms.base import CommandReply, Confirmation, Outlet
from bot.platforms.catalog import PLATFORMS, module_of
from bot.platforms.messaging.cards import CardMessage
from bot.platforms.messaging.intake import NOT_YOU, MessageReceiver
from bot.platforms.messaging.live import GrowingReply, LiveMessage
from bot.platforms.messaging.outlet import MessagingOutlet
from bot.rights.settings import RolesSettings, names_of
from bot.values import Identity, Place, PlatformSettings
from tests.bot.platforms.slack.installing import nowhere
from tests.fakes.bulletin.platform import BOT, BulletinPlatform, open_platform
from tests.fakes.bulletin.service import Bulletin
from tests.fakes.bulletin.settings import BulletinSettings
from tests.fakes.inbound import FakeInboundHandler

PAGE = (Path(__file__).parents[2] / "docs" / "platforms.md").read_text("utf-8")


@asynccontextmanager
async def listening(
    inbound: FakeInboundHandler, **settings: object
) -> AsyncIterator[BulletinPlatform]:
    """Open the board through its declaration, as a process of the bot does."""
    made = BulletinSettings.model_validate({"name": "retinue", **settings})
    opening = module_of(BulletinSettings, "platform").open_platform
    assert opening is open_platform
    async with nowhere() as database, opening(made, database, receives=True) as it:
        running = asyncio.ensure_future(it.intake.run(inbound))
        await it.service.until(lambda: it.service.on_post is not None)
        try:
            yield it
        finally:
            running.cancel()
            await asyncio.wait({running})


async def answers(service: Bulletin, count: int = 1) -> list[str]:
    """Wait until the bot has posted so often in the channel, and return its posts."""

    def found() -> list[str]:
        return [each.text for each in service.channels["general"].values() if each.author == BOT]

    await service.until(lambda: len(found()) >= count)
    return found()


@pytest.mark.parametrize(
    "base", [LiveMessage, CardMessage, GrowingReply, MessagingOutlet, MessageReceiver, Outlet]
)
def test_the_page_names_every_method_that_a_platform_adds(base: type) -> None:
    names: frozenset[str] = getattr(base, "__abstractmethods__", frozenset())

    assert base.__name__ in PAGE
    assert [name for name in sorted(names) if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize("kind", [*PLATFORMS, BulletinSettings])
def test_a_platform_declares_itself_in_its_settings(kind: type[BulletinSettings]) -> None:
    for name in ("section", "title", "about", "needs", "guide", "account", "account_form"):
        assert isinstance(getattr(kind, name), str)
    for name in (*set(PlatformSettings.__annotations__) - {"at_start"}, "configured"):
        assert hasattr(kind, name)
        assert f"`{name}`" in PAGE
    assert not kind().configured


def test_the_core_knows_a_platform_by_its_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "PLATFORMS", (*PLATFORMS, BulletinSettings))
    room, direct = Place("bulletin", "board", "general"), Place("bulletin", "", "@alice")

    admins = AccessSettings(place_admins={"bulletin:board": ("bulletin:bob",)})
    roles = RolesSettings.model_validate({"places": {"bulletin:board:general": {}}})

    assert admins.admins_at(room) == {"bulletin:bob"}
    assert place_named("bulletin:board:general") == room
    assert account_in("bulletin:alice") == Identity("bulletin", "", "alice")
    assert account_in("bulletin:board:alice") is None
    assert is_private(direct)
    assert not is_private(room)
    assert {*roles.places} < {*names_of(room)}
    assert is_channel("bulletin:board:general")
    assert names_of(direct) == ["direct"]
    assert where_text(Place("bulletin", "board")) == "this board"


async def test_a_message_is_received_once_and_a_command_answered() -> None:
    inbound = FakeInboundHandler()
    inbound.commands["/subagents list"] = CommandReply(text="You have no runs.")
    async with listening(inbound) as it:
        service = it.service
        await service.say("general", "alice", "lovely weather")
        message_id = await service.say("general", "alice", "@retinue hello")
        assert service.on_post is not None
        await service.on_post("general", message_id, service.at("general", message_id))
        await service.say("general", "alice", "@retinue /subagents list")

        assert await answers(service) == ["You have no runs."]

    assert inbound.texts() == ["hello", "/subagents list"]


async def test_a_user_who_is_not_admitted_is_refused() -> None:
    inbound = FakeInboundHandler()
    async with listening(inbound, users=["bob"]) as it:
        await it.service.say("general", "alice", "@retinue hello")

        assert await answers(it.service) == [NOT_YOU]

    assert inbound.heard == []


async def test_a_message_settles_the_question_that_it_answers() -> None:
    inbound = FakeInboundHandler()
    inbound.commands["plums"] = CommandReply(text="Noted.", answered="q1", chosen="plums")
    alice, place = Identity("bulletin", "", "alice"), Place("bulletin", "board", "general")
    question = Confirmation(
        id="q1", owner=alice, place=place, text="Which fruit?", expires_in_seconds=600
    )
    async with listening(inbound) as it:
        message_id = await it.outlet.ask(question)
        await it.service.say("general", "alice", "@retinue plums")
        await answers(it.service, 2)
        await it.service.until(lambda: not it.service.at("general", message_id).buttons)

        assert "alice: plums" in it.service.at("general", message_id).text
