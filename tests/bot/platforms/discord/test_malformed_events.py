"""Malformed gateway events are skipped, malformed frames cost one connection; nothing ends."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from bot.errors import ConfigError
from tests.bot.platforms.discord.hearing import Town, town
from tests.fakes.discord.gateway import Event
from tests.fakes.discord.server import FakeDiscord

HUGE = "9" * 5_000


def whole_message(here: Town) -> dict[str, Any]:
    """Return a MESSAGE_CREATE as Discord sends it."""
    return {
        "id": "1300000000000000001",
        "channel_id": str(here.general.id),
        "guild_id": str(here.guild.id),
        "author": {
            "id": str(here.alice.id),
            "username": "alice",
            "discriminator": "0",
            "avatar": None,
            "global_name": None,
        },
        "content": "hello",
        "timestamp": "2026-11-22T00:00:00+00:00",
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "embeds": [],
        "pinned": False,
        "type": 0,
        "components": [],
    }


def whole_click(here: Town) -> dict[str, Any]:
    """Return an INTERACTION_CREATE as Discord sends it for a click."""
    author = whole_message(here)["author"]
    return {
        "id": "1300000000000000002",
        "application_id": str(here.fake.application_id),
        "type": 3,
        "token": "token",
        "version": 1,
        "channel_id": str(here.general.id),
        "guild_id": str(here.guild.id),
        "member": {"user": author, "roles": [], "joined_at": None, "flags": 0},
        "entitlements": [],
        "attachment_size_limit": 1024,
        "data": {"custom_id": "run:stop:x", "component_type": 2},
        "message": whole_message(here),
    }


def dropped_fields(whole: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: whole[key] for key in whole if key != missing} for missing in whole]


def wrong_types(whole: dict[str, Any]) -> list[dict[str, Any]]:
    odd: list[object] = [None, 7, "x", HUGE, [], [None], {}, {"id": None}, True, -1.5]
    return [{**whole, key: value} for key in whole for value in odd]


NO_OBJECT: list[object] = [None, [], "text", 7, True, {}, {"id": None}, {"id": HUGE}]
KINDS = [
    "MESSAGE_CREATE",
    "MESSAGE_UPDATE",
    "MESSAGE_DELETE",
    "INTERACTION_CREATE",
    "GUILD_CREATE",
    "GUILD_UPDATE",
    "GUILD_DELETE",
    "CHANNEL_CREATE",
    "CHANNEL_UPDATE",
    "THREAD_CREATE",
    "THREAD_UPDATE",
    "THREAD_LIST_SYNC",
    "THREAD_MEMBERS_UPDATE",
    "GUILD_MEMBER_UPDATE",
    "GUILD_ROLE_UPDATE",
    "MESSAGE_REACTION_ADD",
    "TYPING_START",
    "USER_UPDATE",
    "ENTITLEMENT_CREATE",
    "NOT_KNOWN_TO_ANYBODY",
]


def hostile_events(here: Town) -> list[tuple[str, object]]:
    message, click = whole_message(here), whole_click(here)
    command = {**click, "type": 2, "data": {"id": "1", "name": "subagents", "type": 1}}
    form = {**click, "type": 5, "data": {"custom_id": "x", "components": [{}]}}
    return [
        *((kind, data) for kind in KINDS for data in NO_OBJECT),
        *(("MESSAGE_CREATE", data) for data in dropped_fields(message)),
        *(("MESSAGE_CREATE", data) for data in wrong_types(message)),
        *(
            ("INTERACTION_CREATE", data)
            for whole in (click, command, form)
            for data in (*dropped_fields(whole), *wrong_types(whole))
        ),
        ("MESSAGE_CREATE", {**message, "content": "x" * 2_000_000, "mentions": [{}] * 10_000}),
    ]


async def still_hears(here: Town, text: str) -> None:
    await here.fake.say(here.alice, here.general, text, mention=True)
    await here.inbound.until(
        lambda: any(each.text == text for each in here.inbound.heard), f"{text} to be heard"
    )
    assert not here.listening.done()


async def test_events_that_cannot_be_parsed_are_skipped_and_the_next_is_heard(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    async with town(fake) as here:
        (session,) = fake.gateway.sessions.values()

        for name, data in hostile_events(here):
            session.put(name, data)  # type: ignore[arg-type]
        await still_hears(here, "still there?")

    assert fake.gateway.identifies == 1
    assert fake.gateway.resumes == 0
    skipped = [each for each in caplog.messages if each.startswith("Skipped a malformed Discord")]
    assert len(skipped) == len(set(skipped)) > len(KINDS) / 2
    assert all(HUGE not in line for line in skipped)


FRAMES: list[Callable[[], str]] = [
    lambda: "this is not JSON",
    lambda: "null",
    lambda: "[]",
    lambda: '"text"',
    lambda: "[" * 100_000,
    lambda: json.dumps({"op": 10, "d": None}),
    lambda: json.dumps({"op": 0, "t": ["MESSAGE_CREATE"], "s": 3, "d": {}}),
    lambda: json.dumps({"op": 0, "t": "READY", "s": 1, "d": {}}),
    lambda: json.dumps({"op": 0, "t": "READY", "s": 1, "d": None}),
    lambda: json.dumps({"op": 0, "t": "RESUMED", "s": 1, "d": None}),
]


@pytest.mark.parametrize("number", range(len(FRAMES)))
@pytest.mark.parametrize("shards", [None, 1])
async def test_a_frame_that_cannot_be_read_costs_one_connection(
    fake: FakeDiscord, number: int, shards: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with town(fake, shard_count=shards) as here:
        (connection,) = fake.gateway.connections

        connection.send_text(FRAMES[number]())
        await fake.until(lambda: fake.gateway.identifies == 2, "a new session")
        await fake.ready()
        await still_hears(here, "still there?")

    assert sum("The connection to Discord broke" in each for each in caplog.messages) == 1


async def test_a_fatal_close_code_still_ends_the_platform_after_a_malformed_frame(
    fake: FakeDiscord,
) -> None:
    async with town(fake) as here:
        fake.gateway.connections[0].send_text("null")
        await fake.until(lambda: fake.gateway.identifies == 2, "a new session")
        await fake.ready()
        fake.gateway.drop(4004)
        await fake.until(here.listening.done, "the end")

        assert isinstance(here.listening.exception(), ConfigError)


async def test_discord_that_sends_only_malformed_frames_is_tried_again_and_reported_once(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="bot")
    async with town(fake) as here:
        here.client.reconnect_seconds = 0.01
        greeting = fake.gateway.greeting
        fake.gateway.greeting = lambda _: [Event("READY", {})]
        fake.gateway.connections[0].send_text("null")
        await fake.until(lambda: fake.gateway.identifies >= 5, "four more attempts")
        assert not here.listening.done()
        fake.gateway.greeting = greeting
        await fake.until(here.client.is_ready, "a session")
        await still_hears(here, "still there?")

    assert sum("The connection to Discord broke" in each for each in caplog.messages) == 1
