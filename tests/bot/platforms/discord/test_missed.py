"""What is read on Discord after a gap: which places, in which order, under which keys."""

from datetime import UTC, datetime, timedelta

import discord

from bot.platforms.discord.intake import DiscordMessageReceiver
from bot.platforms.discord.outlet import DiscordOutlet
from bot.tasks import Tasks
from bot.values import Place
from tests.bot.platforms.discord.hearing import Town, people, town
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Channel
from tests.fakes.inbound import FakeInboundHandler

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def place_of(here: Town, channel: Channel) -> Place:
    return Place("discord", str(here.guild.id), str(channel.id))


def last_said(here: Town, channel: Channel, at: datetime) -> None:
    """Let the newest message that Discord names for a channel be of this time."""
    known = here.client.get_channel(channel.id)
    assert isinstance(known, discord.TextChannel)
    known.last_message_id = discord.utils.time_snowflake(at)


async def test_only_places_with_something_new_are_read_latest_first(fake: FakeDiscord) -> None:
    guild, general, *_ = people(fake)
    silent, earlier, later = (fake.add_channel(guild, name) for name in ("a", "b", "c"))
    async with town(fake) as here:
        last_said(here, general, NOW - timedelta(seconds=1))
        last_said(here, earlier, NOW + timedelta(seconds=1))
        last_said(here, later, NOW + timedelta(seconds=2))
        places = [place_of(here, channel) for channel in (general, silent, earlier, later)]
        unknown = Place("discord", str(guild.id), "4711")

        receiver = DiscordMessageReceiver(here.client, FakeInboundHandler(), Tasks())
        found = receiver.with_news([*places, unknown], NOW)

    assert found == [unknown, places[3], places[2]]


async def test_a_message_has_one_key_whether_it_is_delivered_or_fetched(fake: FakeDiscord) -> None:
    async with town(fake) as here:
        await fake.say(here.alice, here.general, "Hello", mention=True)
        await here.heard()
        tasks = Tasks()
        outlet = DiscordOutlet(here.client, here.client.settings, tasks)

        (fetched,) = await outlet.history(place_of(here, here.general), "", 10)
        await tasks.close()

    assert fetched.event_id == here.inbound.heard[0].event_id
