"""A run has one card; it moves with the run, and its final state stays."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.platforms.base import RunCard
from bot.platforms.discord.outlet import DiscordOutlet
from bot.platforms.discord.texts import YELLOW
from bot.values import RunStatus
from tests.bot.platforms.discord.hostile import corpus
from tests.bot.platforms.discord.speaking import (
    AT_ONCE,
    MESSAGE,
    MESSAGES,
    RUN,
    THREADS,
    Stand,
    card_of,
    stand,
)
from tests.fakes.discord.things import Channel, Message

PATIENCE = 5.0
NOW = 1_700_000_000


class Time:
    """A clock on the wall that a test moves."""

    def __init__(self) -> None:
        self.now = float(NOW)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def room() -> AsyncIterator[Stand]:
    async with stand() as opened:
        yield opened


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def outlet(room: Stand, time: Time) -> DiscordOutlet:
    return outlet_of(room, time)


def outlet_of(room: Stand, time: Time, *, seconds: float = 0.0) -> DiscordOutlet:
    tempo = replace(AT_ONCE, edit_seconds=seconds)
    return DiscordOutlet(room.client, room.client.settings, room.tasks, tempo=tempo, now=time)


class Begun:
    """Remembers the ids of cards that were posted."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def __call__(self, message_id: str) -> None:
        self.ids.append(message_id)


@pytest.fixture
def begun() -> Begun:
    return Begun()


async def shows(room: Stand, text: str, channel: Channel | None = None) -> Message:
    """Wait until the newest card shows something."""

    def cards() -> list[Message]:
        where = channel or room.fake.channels.get(room.said.id)
        return room.fake.answers(where) if where else []

    await room.fake.until(lambda: cards() and text in cards()[-1].text(), text)
    # It is there before the bot knows that it is.
    await room.tasks.wait_idle(PATIENCE)
    return cards()[-1]


# --- what it shows --------------------------------------------------------------------------------


async def test_a_card_shows_the_run_and_its_buttons(room: Stand, outlet: DiscordOutlet) -> None:
    outlet.show_card(card_of(room, tool="web_fetch", line="Page two."), begun=Begun())

    message = await shows(room, "the news")
    assert message.text().split("\n") == [
        "🔵 **the news** · `1a2b3c4d` · running",
        f"`general` · started <t:{NOW}:R> · 3 tool calls · 12,345 of 100,000 tokens",
        "🔧 `web_fetch`",
        "↳ Page two.",
    ]
    assert message.buttons() == ["Stop", "Log", "Send"]
    assert [message.button(name)["custom_id"] for name in message.buttons()] == [
        f"run:stop:{RUN}",
        f"run:log:{RUN}",
        f"run:send:{RUN}",
    ]
    assert message.pings == set()


@pytest.mark.parametrize(
    ("status", "words", "buttons"),
    [
        (RunStatus.COMPLETED, "completed", ["Log"]),
        (RunStatus.FAILED, "failed", ["Resume", "Log"]),
        (RunStatus.CANCELLED, "stopped", ["Resume", "Log"]),
    ],
)
async def test_the_card_of_a_run_that_ended_offers_its_log_and_resume_unless_it_completed(
    room: Stand, outlet: DiscordOutlet, status: RunStatus, words: str, buttons: list[str]
) -> None:
    outlet.show_card(card_of(room, status), begun=Begun())

    message = await shows(room, words)
    assert message.buttons() == buttons


async def test_the_card_of_a_run_without_its_tools_is_yellow(
    room: Stand, outlet: DiscordOutlet
) -> None:
    outlet.show_card(card_of(room, RunStatus.COMPLETED, degraded=True), begun=Begun())

    message = await shows(room, "🟡")
    assert "finished without its tools" in message.text()
    assert message.components[0]["accent_color"] == YELLOW


async def test_cards_are_not_kept_by_the_library(room: Stand, outlet: DiscordOutlet) -> None:
    outlet.show_card(card_of(room), begun=Begun())
    await shows(room, "running")

    assert room.client.persistent_views == []


# --- how it moves ---------------------------------------------------------------------------------


async def test_a_card_moves_in_one_message(
    room: Stand, outlet: DiscordOutlet, begun: Begun
) -> None:
    outlet.show_card(card_of(room, RunStatus.QUEUED), begun=begun)
    message = await shows(room, "queued")
    outlet.show_card(card_of(room, RunStatus.RUNNING), begun=begun)
    await shows(room, "running")
    outlet.show_card(card_of(room, RunStatus.COMPLETED), begun=begun)
    await shows(room, "completed")

    assert room.fake.answers(room.thread) == [message]
    assert begun.ids == [str(message.id)]


async def test_the_states_between_two_edits_are_left_out(
    room: Stand, outlet: DiscordOutlet
) -> None:
    hold = asyncio.Event()
    held = room.fake.fail("POST", MESSAGES, hold=hold)
    outlet.show_card(card_of(room, line="step 0"), begun=Begun())
    await room.fake.until(lambda: held.hits, "the first card")
    for step in range(1, 50):
        outlet.show_card(card_of(room, line=f"step {step}"), begun=Begun())
    hold.set()

    message = await shows(room, "step 49")
    assert message.edits == 1


async def test_the_next_edit_waits_for_its_time(room: Stand, time: Time) -> None:
    slow = outlet_of(room, time, seconds=60.0)
    slow.show_card(card_of(room, line="one"), begun=Begun())
    message = await shows(room, "one")
    slow.show_card(card_of(room, line="two"), begun=Begun())
    for _ in range(5):
        await room.sender.type(str(room.channel.id))

    assert message.edits == 0


async def test_a_card_that_looks_the_same_is_not_edited(
    room: Stand, outlet: DiscordOutlet, time: Time
) -> None:
    outlet.show_card(card_of(room, elapsed_seconds=10.0), begun=Begun())
    message = await shows(room, "running")
    time.now += 31
    outlet.show_card(card_of(room, elapsed_seconds=40.2), begun=Begun())
    outlet.show_card(card_of(room, elapsed_seconds=41.2), begun=Begun())
    await room.tasks.wait_idle(PATIENCE)

    assert message.edits == 0
    assert room.fake.requests("PATCH", MESSAGE) == []


async def test_every_run_has_a_card_of_its_own(room: Stand, outlet: DiscordOutlet) -> None:
    other = RUN.replace("1a2b", "9f9f")
    outlet.show_card(card_of(room, label="one"), begun=Begun())
    outlet.show_card(card_of(room, label="two", run_id=other), begun=Begun())
    await room.tasks.wait_idle(PATIENCE)

    assert len(room.fake.answers(room.thread)) == 2
    assert len(room.fake.requests("POST", THREADS)) == 1


# --- where it is ----------------------------------------------------------------------------------


async def test_without_a_thread_a_card_is_in_the_channel(
    room: Stand, outlet: DiscordOutlet
) -> None:
    outlet.show_card(card_of(room, place=room.in_channel), begun=Begun())

    await shows(room, "running", room.channel)


async def test_where_no_thread_may_be_made_a_card_is_in_the_channel(
    room: Stand, outlet: DiscordOutlet
) -> None:
    room.guild.deny(room.channel, "create_public_threads")

    outlet.show_card(card_of(room), begun=Begun())

    await shows(room, "running", room.channel)


async def test_a_card_whose_thread_is_gone_is_not_shown_in_the_channel(
    room: Stand, outlet: DiscordOutlet, begun: Begun
) -> None:
    outlet.show_card(card_of(room), begun=begun)
    await shows(room, "running")
    room.fake.delete_channel(room.thread)

    outlet.show_card(card_of(room, RunStatus.COMPLETED), begun=begun)
    await room.tasks.wait_idle(10)

    assert room.everything() == []
    assert len(outlet._cards) == 0


# --- after a restart, and posted anew -------------------------------------------------------------


async def test_after_a_restart_the_same_message_moves(
    room: Stand, outlet: DiscordOutlet, begun: Begun, time: Time
) -> None:
    outlet.show_card(card_of(room), begun=begun)
    message = await shows(room, "running")

    after = Begun()
    restarted = outlet_of(room, time)
    restarted.show_card(card_of(room, RunStatus.COMPLETED, message_id=begun.ids[0]), begun=after)

    assert await shows(room, "completed") is message
    assert after.ids == []


async def test_after_a_restart_a_card_in_the_channel_is_found(
    room: Stand, outlet: DiscordOutlet, begun: Begun, time: Time
) -> None:
    room.guild.deny(room.channel, "create_public_threads")
    outlet.show_card(card_of(room), begun=begun)
    message = await shows(room, "running", room.channel)

    restarted = outlet_of(room, time)
    restarted.show_card(card_of(room, RunStatus.COMPLETED, message_id=begun.ids[0]), begun=Begun())

    assert await shows(room, "completed", room.channel) is message


async def test_a_card_that_was_posted_by_a_process_that_died_is_not_posted_twice(
    room: Stand, outlet: DiscordOutlet, time: Time
) -> None:
    outlet.show_card(card_of(room, RunStatus.QUEUED), begun=Begun())
    message = await shows(room, "queued")

    after = Begun()
    outlet_of(room, time).show_card(card_of(room), begun=after)

    assert await shows(room, "running") is message
    assert after.ids == [str(message.id)]


async def test_a_card_that_somebody_deleted_is_posted_anew(
    room: Stand, outlet: DiscordOutlet, begun: Begun
) -> None:
    outlet.show_card(card_of(room), begun=begun)
    await room.fake.delete(await shows(room, "running"))

    outlet.show_card(card_of(room, RunStatus.COMPLETED), begun=begun)

    message = await shows(room, "completed")
    assert len(begun.ids) == 2
    assert begun.ids[-1] == str(message.id)


async def test_a_card_too_old_to_be_edited_is_posted_anew_and_the_old_one_taken_away(
    room: Stand, outlet: DiscordOutlet, begun: Begun
) -> None:
    room.fake.old_edit_retry_after = 0.001
    outlet.show_card(card_of(room), begun=begun)
    old = await shows(room, "running")
    room.fake.make_old(old)

    outlet.show_card(card_of(room, RunStatus.COMPLETED), begun=begun)

    new = await shows(room, "completed")
    assert old.deleted
    assert begun.ids == [str(old.id), str(new.id)]


async def test_the_last_state_is_shown_in_an_archived_thread_too(
    room: Stand, outlet: DiscordOutlet
) -> None:
    outlet.show_card(card_of(room), begun=Begun())
    old = await shows(room, "running")
    room.fake.archive(room.thread)

    outlet.show_card(card_of(room, RunStatus.COMPLETED), begun=Begun())

    await shows(room, "completed")
    assert old.deleted


# --- trouble, and the end -------------------------------------------------------------------------


async def test_a_card_that_is_over_is_forgotten_once_it_says_so(
    room: Stand, outlet: DiscordOutlet
) -> None:
    outlet.show_card(card_of(room), begun=Begun())
    await shows(room, "running")
    assert len(outlet._cards) == 1

    outlet.show_card(card_of(room, RunStatus.COMPLETED), begun=Begun())
    await shows(room, "completed")

    assert len(outlet._cards) == 0


@pytest.mark.parametrize("fault", [{"status": 503}, {"cloudflare": True}, {"cut": True}])
async def test_the_last_state_is_tried_again_when_discord_is_down(
    room: Stand, outlet: DiscordOutlet, fault: dict[str, bool]
) -> None:
    outlet.show_card(card_of(room), begun=Begun())
    await shows(room, "running")
    room.fake.fail("PATCH", MESSAGE, times=2, **fault)  # type: ignore[arg-type]

    outlet.show_card(card_of(room, RunStatus.COMPLETED), begun=Begun())

    await shows(room, "completed")
    assert len(outlet._cards) == 0


async def test_a_card_is_left_as_it_is_when_discord_stays_down(
    room: Stand, outlet: DiscordOutlet
) -> None:
    outlet.show_card(card_of(room), begun=Begun())
    message = await shows(room, "running")
    down = room.fake.fail("PATCH", MESSAGE, times=None, status=503)

    outlet.show_card(card_of(room, RunStatus.COMPLETED), begun=Begun())
    await room.tasks.wait_idle(PATIENCE)

    assert down.hits == 3
    assert "running" in message.text()
    assert len(outlet._cards) == 0


async def test_a_state_that_did_not_get_through_is_followed_by_the_next(
    room: Stand, outlet: DiscordOutlet
) -> None:
    down = room.fake.fail("POST", MESSAGES, status=503)
    outlet.show_card(card_of(room, line="one"), begun=Begun())
    await room.fake.until(lambda: down.hits, "a failure")

    outlet.show_card(card_of(room, line="two"), begun=Begun())

    await shows(room, "two")


async def test_where_no_card_may_be_posted_discord_is_not_asked_with_every_state(
    room: Stand, outlet: DiscordOutlet
) -> None:
    room.guild.deny(room.channel, "send_messages send_messages_in_threads")
    for step in range(10):
        outlet.show_card(card_of(room, line=f"step {step}"), begun=Begun())
        await room.tasks.wait_idle(PATIENCE)
    assert len(room.fake.requests("POST", MESSAGES)) == 1

    outlet.show_card(card_of(room, RunStatus.COMPLETED), begun=Begun())
    await room.tasks.wait_idle(PATIENCE)

    assert len(room.fake.requests("POST", MESSAGES)) == 1
    assert len(outlet._cards) == 0


async def test_a_place_that_is_none_harms_nobody(room: Stand, outlet: DiscordOutlet) -> None:
    nowhere = replace(room.place, channel="nowhere", thread="", message="")

    outlet.show_card(card_of(room, RunStatus.COMPLETED, place=nowhere), begun=Begun())
    await room.tasks.wait_idle(PATIENCE)

    assert len(outlet._cards) == 0


# --- hostile texts --------------------------------------------------------------------------------


async def test_no_text_pings_or_breaks_a_card(room: Stand, outlet: DiscordOutlet) -> None:
    thread = await room.made_thread()
    texts = corpus(room.bob.id)
    for number, text in enumerate(texts):
        outlet.show_card(hostile(room, number, text, RunStatus.RUNNING), begun=Begun())
        outlet.show_card(hostile(room, number, text, RunStatus.FAILED), begun=Begun())
        await room.tasks.wait_idle(PATIENCE)

    cards = room.fake.answers(thread)
    assert len(cards) == len(texts)
    assert not any(each.pings | each.edit_pings for each in cards)
    assert all(each.buttons() == ["Resume", "Log"] for each in cards)
    assert not [sent for sent in room.fake.sent if sent.status >= 400 and sent.code != 160004]


def hostile(room: Stand, number: int, text: str, status: RunStatus) -> RunCard:
    return card_of(
        room,
        status,
        run_id=f"{number:08x}-0000-4000-8000-000000000001",
        label=text,
        agent=text,
        tool=text,
        line=text,
    )


async def test_the_outlet_shows_cards(begun: Begun) -> None:
    async with stand(AT_ONCE) as room:
        room.outlet.show_card(card_of(room), begun=begun)

        message = await shows(room, "running")

        assert begun.ids == [str(message.id)]
