"""How commands and clicks are answered, also when Discord no longer takes the answer."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from bot.errors import BotError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.discord.answers import FOR_YOU_ALONE
from bot.platforms.discord.buttons import RunButton
from bot.platforms.discord.people import NOT_THIS_CHANNEL, ROLES_UNKNOWN
from bot.platforms.messaging.intake import DONE_ALREADY, NOT_YOU, TROUBLE
from bot.values import Place
from tests.bot.platforms.discord.hearing import CONTENT_ALLOWED, RUN, Town, people, town, who
from tests.fakes.discord.interactions import Interaction
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Channel, User
from tests.fakes.inbound import FakeInboundHandler

SUPPRESS_EMBEDS = 1 << 2
FOLLOW_UP = "/webhooks/{application}/{token}"
CALLBACK = "/interactions/{id}/{token}/callback"


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord.open() as opened:
        opened.application_flags = CONTENT_ALLOWED
        yield opened


@pytest.fixture
async def here(fake: FakeDiscord, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Town]:
    caplog.set_level(logging.INFO, logger="bot")
    async with town(fake) as opened:
        yield opened


@pytest.fixture
async def slow(here: Town) -> asyncio.Event:
    """Hears at once, and answers when this is set."""
    go_on = asyncio.Event()

    async def take(_: Incoming) -> None:
        await go_on.wait()

    here.inbound.on_message = take
    return go_on


async def usage(here: Town, *, by: User | None = None, at: Channel | None = None) -> Interaction:
    return await here.fake.slash(by or here.alice, at or here.general, "subagents usage")


# --- the usual way --------------------------------------------------------------------------------


async def test_an_answer_is_promised_at_once_and_seen_by_the_asker_alone(here: Town) -> None:
    here.answers("/subagents usage", "**2** of 5")

    asked = await (await usage(here)).done()

    assert (asked.deferred, asked.ephemeral) == (True, True)
    assert asked.text() == "**2** of 5"
    assert not here.fake.answers(here.general)


async def test_it_is_heard_as_if_it_had_been_typed(here: Town) -> None:
    asked = await usage(here)
    await here.heard()

    assert here.inbound.heard == [
        Incoming(
            event_id=f"interaction:{asked.id}",
            user=who(here.alice),
            user_name="Alice",
            place=Place("discord", str(here.guild.id), str(here.general.id)),
            text="/subagents usage",
            groups=frozenset({f"discord-role:{here.guild.id}:{here.guild.id}"}),
        )
    ]


async def test_in_a_thread_the_place_is_the_thread_in_its_channel(here: Town) -> None:
    thread = await here.fake.open_thread(here.alice, here.general)

    await usage(here, at=thread)
    await here.heard()

    place = here.inbound.heard[0].place
    assert (place.channel, place.thread) == (str(here.general.id), str(thread.id))


async def test_it_works_in_direct_messages_and_where_the_bot_is_no_member(here: Town) -> None:
    here.answers("/subagents usage", "2 of 5")
    other = here.fake.add_guild("Elsewhere", bot=False)
    here.fake.join(other, here.alice)
    channel = here.fake.add_channel(other, "lobby")

    private = await (await usage(here, at=here.fake.dm(here.alice))).done()
    guest = await here.fake.slash(here.alice, channel, "subagents usage", guest=True)
    await guest.done()

    assert private.text() == guest.text() == "2 of 5"
    assert here.inbound.heard[0].place.workspace == ""
    assert here.inbound.heard[1].place == Place("discord", str(other.id), str(channel.id))


async def test_a_long_answer_comes_in_parts_and_a_longer_one_in_a_file(here: Town) -> None:
    here.answers("/subagents usage", "word " * 1_000)
    parts = await usage(here)
    await here.fake.until(lambda: len(parts.messages) == 3, "three parts")
    here.answers("/subagents usage", "word " * 5_000)
    filed = await usage(here)
    await here.fake.until(lambda: len(filed.messages) == 2, "the beginning and a file")

    assert parts.text().split() == ["word"] * 1_000
    assert parts.ephemeral
    assert filed.text().startswith("word word")
    ((name, content),) = filed.messages[1].files
    assert (name, content.decode().split()) == ("answer.md", ["word"] * 5_000)


async def test_when_files_are_refused_the_whole_text_comes_all_the_same(here: Town) -> None:
    here.fake.refuse_files = True
    here.answers("/subagents usage", "word " * 5_000)

    asked = await usage(here)
    await here.fake.until(lambda: len(asked.messages) == 13, "all parts")

    assert asked.text().split() == ["word"] * 5_000


async def test_nothing_in_an_answer_pings_hides_a_link_or_is_embedded(here: Town) -> None:
    hostile = f"@everyone <@{here.bob.id}> [bank.example](https://evil.example)"
    here.answers("/subagents usage", hostile)

    (message,) = (await (await usage(here)).done()).messages

    assert not message.pings | message.edit_pings
    assert message.flags & SUPPRESS_EMBEDS
    assert "](" not in message.text()
    sent = here.fake.requests("POST", FOLLOW_UP)[-1].json
    assert sent["allowed_mentions"]["parse"] == []


# --- who may --------------------------------------------------------------------------------------


async def test_who_may_not_is_told_alone_and_nothing_is_heard(fake: FakeDiscord) -> None:
    *_, bob = people(fake)
    async with town(fake, users=(str(bob.id),)) as here:
        asked = await (await usage(here)).done()
        await (await usage(here, by=bob)).acknowledged()
        await here.heard()

        assert (asked.text(), asked.ephemeral) == (NOT_YOU, True)
        assert [each.user for each in here.inbound.heard] == [who(bob)]


async def test_where_the_bot_does_not_serve_it_says_so_to_the_asker(fake: FakeDiscord) -> None:
    guild, *_ = people(fake)
    served = fake.add_channel(guild, "served")
    async with town(fake, channels=(str(served.id),)) as here:
        asked = await (await usage(here)).done()

        assert (asked.text(), asked.ephemeral) == (NOT_THIS_CHANNEL, True)


async def test_roles_let_in_and_make_admins_but_not_in_direct_messages(fake: FakeDiscord) -> None:
    guild, _, alice, bob = people(fake)
    chiefs = fake.add_role(guild, "chiefs")
    fake.join(guild, alice, roles=[chiefs])
    ids = (str(chiefs.id),)
    async with town(fake, roles=ids, admin_roles=ids, users=(str(bob.id),)) as here:
        await usage(here)
        await here.heard()
        await usage(here, by=bob)
        await here.heard(2)
        asked = await (await usage(here, at=fake.dm(alice))).done()

        assert [each.admin for each in here.inbound.heard] == [True, False]
        assert asked.text() == ROLES_UNKNOWN


# --- the same thing twice -------------------------------------------------------------------------


async def test_the_same_interaction_told_again_acts_once(here: Town) -> None:
    here.answers("/subagents usage", "2 of 5")
    asked = await (await usage(here)).done()
    for session in here.fake.gateway.connected:
        (event,) = [each["d"] for each in session.told if each["t"] == "INTERACTION_CREATE"]
        session.put("INTERACTION_CREATE", event)
    await (await usage(here, by=here.bob)).done()

    assert [each.user for each in here.inbound.heard] == [who(here.alice), who(here.bob)]
    assert len(asked.messages) == 1


async def test_what_the_core_has_heard_before_is_said_to_be_done(here: Town) -> None:
    asked = await (await usage(here)).done()

    assert asked.text() == DONE_ALREADY


async def test_what_another_process_has_answered_is_left_to_it(here: Town) -> None:
    message = await here.post(here.general, RunButton("stop", RUN))
    here.fake.fail("POST", CALLBACK, code=40060)

    asked = await here.fake.click(here.alice, message, "Stop")
    await here.heard()
    await (await usage(here, by=here.bob)).done()

    assert not asked.messages
    assert len(here.fake.requests("POST", FOLLOW_UP)) == 1


async def test_a_promise_that_was_made_at_the_second_attempt_is_kept(here: Town) -> None:
    here.answers("/subagents usage", "2 of 5")
    here.fake.fail("POST", CALLBACK, status=502)

    asked = await (await usage(here)).done()

    assert asked.text() == "2 of 5"


# --- when Discord no longer takes the answer ------------------------------------------------------


async def test_after_fifteen_minutes_the_result_is_a_message_in_the_same_place(
    here: Town, slow: asyncio.Event
) -> None:
    thread = await here.fake.open_thread(here.alice, here.general)
    asked = await usage(here, at=thread)
    await here.heard()
    here.fake.expire(asked)
    slow.set()
    (message,) = await here.said(thread)

    assert message.text() == DONE_ALREADY
    assert not message.pings


async def test_who_was_acknowledged_too_late_gets_a_message_and_it_was_done(here: Town) -> None:
    here.answers("/subagents usage", "2 of 5")
    here.fake.fail("POST", CALLBACK, code=10062)

    await usage(here)
    (message,) = await here.said(here.general)

    assert message.text() == "2 of 5"
    assert not here.fake.requests("POST", FOLLOW_UP)


async def test_where_that_place_is_closed_it_is_a_direct_message(here: Town) -> None:
    here.answers("/subagents usage", "2 of 5")
    here.fake.fail("POST", CALLBACK, code=10062)
    here.guild.deny(here.general, "send_messages")

    await usage(here)
    (message,) = await here.said(here.fake.dm(here.alice))

    assert message.text() == "2 of 5"


async def test_when_nothing_is_left_it_is_logged(
    here: Town, caplog: pytest.LogCaptureFixture
) -> None:
    here.answers("/subagents usage", "2 of 5")
    here.fake.fail("POST", CALLBACK, code=10062)
    here.guild.deny(here.general, "send_messages")
    here.fake.close_dm(here.alice)

    asked = await usage(here)
    await here.fake.until(lambda: f"{asked.id} is lost" in caplog.text, "a line in the log")


@pytest.mark.parametrize("closed", [False, True])
async def test_what_a_run_read_and_wrote_is_never_told_in_a_channel(
    here: Town, closed: bool
) -> None:
    here.answers("/subagents info last", CommandReply(text="It read a secret.", private=True))
    here.fake.fail("POST", CALLBACK, code=10062)
    if closed:
        here.fake.close_dm(here.alice)

    await here.fake.slash(here.alice, here.general, "subagents info", run="last")
    channel = here.general if closed else here.fake.dm(here.alice)
    (message,) = await here.said(channel)

    assert message.text() == (FOR_YOU_ALONE if closed else "It read a secret.")
    assert "secret" not in "".join(each.text() for each in here.fake.answers(here.general))


async def test_an_answer_that_may_have_come_through_is_not_sent_again(
    here: Town, caplog: pytest.LogCaptureFixture
) -> None:
    here.answers("/subagents usage", "2 of 5")
    here.fake.fail("POST", FOLLOW_UP, cut=True)

    asked = await usage(here)
    await here.fake.until(lambda: f"{asked.id} is lost" in caplog.text, "a line in the log")

    assert len(here.fake.requests("POST", FOLLOW_UP)) == 1
    assert not here.fake.answers(here.general)


# --- what goes wrong ------------------------------------------------------------------------------


async def test_what_the_core_cannot_do_is_said(
    here: Town, caplog: pytest.LogCaptureFixture
) -> None:
    here.inbound.failure = BotError("The database is away; try again in a minute.")
    known = await (await usage(here)).done()
    here.inbound.failure = ValueError("a bug")
    unknown = await (await usage(here)).done()

    assert known.text() == "The database is away; try again in a minute."
    assert unknown.text() == TROUBLE
    assert "a bug" in caplog.text


async def test_a_mistake_of_ours_is_said_and_logged(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(FakeInboundHandler):
        async def receive(self, incoming: Incoming) -> CommandReply | None:
            return "no reply at all"  # type: ignore[return-value]

    async with town(fake, Odd()) as here:
        asked = await (await usage(here)).done()

        assert asked.text() == TROUBLE
        assert "AttributeError" in caplog.text


async def test_while_nobody_hears_nothing_is_done(
    here: Town, caplog: pytest.LogCaptureFixture
) -> None:
    here.client.inbound = None

    asked = await usage(here)
    await here.fake.until(lambda: "before the intake was ready" in caplog.text, "a line in the log")

    assert not asked.response


async def test_when_it_is_to_stop_what_was_clicked_is_still_answered(
    here: Town, slow: asyncio.Event
) -> None:
    asked = await usage(here)
    await here.heard()
    here.listening.cancel()
    await here.fake.until(lambda: not here.fake.gateway.connections, "nobody at the gateway")
    assert not here.listening.done()
    slow.set()
    await asked.done()
    await asyncio.wait([here.listening], timeout=5)

    assert here.listening.cancelled()
