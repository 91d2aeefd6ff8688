"""The bot reads other channels for a user with the rights that this user has on Discord."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from bot.errors import DeliveryError
from bot.platforms.discord.outlet import DiscordOutlet
from bot.platforms.discord.people import identity_of
from bot.platforms.discord.reading import IN_A_SERVER, NOT_READY
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.messages import PastMessage
from bot.platforms.reading import NOT_ADMITTED, NOT_FOUND, PRIVATE, ReadRequest
from bot.values import Place
from tests.bot.platforms.discord.speaking import Stand, stand
from tests.fakes.discord.things import Channel, Kind, Message, User


@dataclass
class Town:
    """A server with a channel where Alice asks, and others."""

    at: Stand
    others: dict[str, Channel] = field(default_factory=dict)

    async def channel(
        self, name: str, *, readers: set[int] | None = None, text: str = "The key is here."
    ) -> Message:
        """Make a channel, and return what its owner said in it; `readers`: for them alone."""
        made = self.at.fake.add_channel(self.at.guild, name)
        made.readers = readers
        return await self.at.fake.say(self.at.guild.owner, made, text)

    async def linked(
        self, message: Message, place: Place | None = None, *, user: User | None = None
    ) -> list[str]:
        """Return the texts that a user reads through a link, asked for in a place."""
        guild = message.channel.guild
        link = (
            f"https://discord.com/channels/{guild.id if guild else '@me'}"
            f"/{message.channel.id}/{message.id}"
        )
        read = await self.at.outlet.linked(link, self.request(place, user))
        # The notice that begins a thread has no text.
        return [each.text for each in read if each.text]

    async def found(self, place: Place | None = None, *, user: User | None = None) -> list[str]:
        """Return the texts that a search finds."""
        return [each.text for each in await self.searched(place, user=user)]

    async def searched(
        self, place: Place | None = None, *, user: User | None = None
    ) -> list[PastMessage]:
        return await self.at.outlet.search("key", self.request(place, user))

    def request(self, place: Place | None, user: User | None) -> ReadRequest:
        who = identity_of((user or self.at.alice).id)
        return ReadRequest(user=who, place=place or self.at.in_channel, limit=10)

    def open_private_thread(self, *members: User) -> Channel:
        """Open a private thread below the channel where Alice asks."""
        fake = self.at.fake
        thread = Channel(fake.new_id(), Kind.PRIVATE_THREAD, "private", guild=self.at.guild)
        thread.parent, thread.owner = self.at.channel, self.at.guild.owner
        thread.readers = {each.id for each in members}
        fake.channels[thread.id] = thread
        return thread


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    async with stand() as opened:
        yield Town(opened)


async def test_a_link_is_read_with_the_messages_around_it(town: Town) -> None:
    said = await town.channel("news", text="one")
    for text in ("two", "three"):
        await town.at.fake.say(town.at.bob, said.channel, text)

    assert await town.linked(said) == ["one", "two", "three"]


async def test_a_message_that_opened_a_thread_is_read_with_its_answers(town: Town) -> None:
    await town.at.made_thread()
    await town.at.fake.say(town.at.bob, town.at.thread, "an answer")
    before = await town.at.fake.say(town.at.bob, town.at.channel, "beside it")

    assert await town.linked(town.at.said, town.at.direct) == ["what is new?", "an answer"]
    assert "beside it" in await town.linked(before, town.at.direct)


async def test_a_channel_of_others_is_not_read_wherever_one_asks(town: Town) -> None:
    said = await town.channel("board", readers={town.at.bob.id})

    for place in (town.at.in_channel, town.at.direct):
        with pytest.raises(DeliveryError, match=NOT_FOUND):
            await town.linked(said, place)
    assert await town.found() == []


async def test_a_channel_of_which_a_user_is_shut_out_is_not_for_everyone(town: Town) -> None:
    said = await town.channel("news")
    said.channel.shut_out = {town.at.bob.id}

    assert await town.linked(said, town.at.direct) == ["The key is here."]
    with pytest.raises(DeliveryError, match=PRIVATE):
        await town.linked(said)
    assert await town.found() == []
    with pytest.raises(DeliveryError, match=NOT_FOUND):
        await town.linked(said, town.at.direct, user=town.at.bob)


async def test_a_private_channel_is_read_where_nobody_else_reads(town: Town) -> None:
    said = await town.channel("board", readers={town.at.alice.id})

    assert await town.linked(said, town.at.direct) == ["The key is here."]
    with pytest.raises(DeliveryError, match=PRIVATE):
        await town.linked(said)
    assert await town.found() == []


async def test_a_channel_is_private_place_or_not_for_its_own_readers(town: Town) -> None:
    town.at.channel.readers = {town.at.alice.id}
    await town.at.made_thread()
    said = await town.at.fake.say(town.at.alice, town.at.thread, "The key is here.")

    assert await town.linked(said) == ["The key is here."]
    assert await town.linked(town.at.said, town.at.place) == ["what is new?", "The key is here."]
    assert await town.found() == ["The key is here."]


async def test_a_private_thread_is_for_its_members(town: Town) -> None:
    thread = town.open_private_thread(town.at.bob)
    said = await town.at.fake.say(town.at.bob, thread, "The key is here.")
    inside = Place("discord", str(town.at.guild.id), str(town.at.channel.id), str(thread.id))

    with pytest.raises(DeliveryError, match=NOT_FOUND):
        await town.linked(said, town.at.direct)
    with pytest.raises(DeliveryError, match=PRIVATE):
        await town.linked(said, user=town.at.bob)
    assert await town.linked(said, town.at.direct, user=town.at.bob) == ["The key is here."]
    assert await town.linked(said, inside, user=town.at.bob) == ["The key is here."]
    assert await town.found() == []


async def test_another_server_is_read_by_its_members_in_private_alone(town: Town) -> None:
    other = town.at.fake.add_guild("Other")
    hall = town.at.fake.add_channel(other, "hall")
    said = await town.at.fake.say(other.owner, hall, "The key is here.")

    with pytest.raises(DeliveryError, match=NOT_FOUND):
        await town.linked(said, town.at.direct)
    town.at.fake.join(other, town.at.alice)
    assert await town.linked(said, town.at.direct) == ["The key is here."]
    with pytest.raises(DeliveryError, match=PRIVATE):
        await town.linked(said)


async def test_a_server_without_the_bot_is_not_read(town: Town) -> None:
    other = town.at.fake.add_guild("Other", bot=False)
    town.at.fake.join(other, town.at.alice)
    hall = town.at.fake.add_channel(other, "hall")
    said = await town.at.fake.say(other.owner, hall, "The key is here.")

    with pytest.raises(DeliveryError, match=NOT_FOUND):
        await town.linked(said, town.at.direct)


async def test_direct_messages_are_read_in_themselves_alone(town: Town) -> None:
    said = await town.at.fake.say(town.at.alice, town.at.fake.dm(town.at.alice), "My code is 1.")
    of_bob = await town.at.fake.say(town.at.bob, town.at.fake.dm(town.at.bob), "My code is 2.")

    assert await town.linked(said, town.at.direct) == ["My code is 1."]
    for message, place in ((said, town.at.in_channel), (of_bob, town.at.direct)):
        with pytest.raises(DeliveryError, match=NOT_FOUND):
            await town.linked(message, place)


async def test_channels_that_the_admins_left_out_are_not_read(town: Town) -> None:
    said = await town.channel("news")
    settings = DiscordSettings(
        token=town.at.fake.token,
        api_url=town.at.fake.api_url,
        channels=(str(town.at.channel.id),),
    )
    town.at.outlet = DiscordOutlet(town.at.client, settings, town.at.tasks)

    with pytest.raises(DeliveryError, match=NOT_ADMITTED):
        await town.linked(said)
    assert await town.found() == []


async def test_a_channel_that_the_bot_may_not_see_is_named_as_such(town: Town) -> None:
    said = await town.channel("news")
    town.at.guild.deny(said.channel, "view_channel")

    with pytest.raises(DeliveryError, match="may not see that channel"):
        await town.linked(said)


@pytest.mark.parametrize(
    "link",
    ["", "https://example.org/channels/1/2/3", "https://discord.com/channels/../2/3", "12345"],
)
async def test_other_links_are_refused(town: Town, link: str) -> None:
    with pytest.raises(DeliveryError, match="no link to a message of Discord"):
        await town.at.outlet.linked(link, town.request(None, None))


async def test_a_message_that_is_gone_is_not_found(town: Town) -> None:
    said = await town.channel("news")
    await town.at.fake.delete(said)

    with pytest.raises(DeliveryError, match=NOT_FOUND):
        await town.linked(said)


async def test_a_search_tells_where_each_message_stands(town: Town) -> None:
    said = await town.channel("news")

    (found,) = await town.searched()

    assert (found.channel_name, found.author_name) == ("news", "Town-Owner")
    assert found.link == (
        f"https://discord.com/channels/{town.at.guild.id}/{said.channel.id}/{said.id}"
    )
    assert await town.linked(said) == [found.text]


async def test_public_threads_are_searched_with_their_channel(town: Town) -> None:
    await town.at.made_thread()
    await town.at.fake.say(town.at.bob, town.at.thread, "The key is here.")

    (found,) = await town.searched()

    assert found.place.thread == str(town.at.thread.id)


async def test_direct_messages_have_no_server_to_search(town: Town) -> None:
    with pytest.raises(DeliveryError, match=IN_A_SERVER):
        await town.found(town.at.direct)


async def test_a_search_waits_once_until_discord_has_prepared_it(town: Town) -> None:
    await town.channel("news")
    town.at.fake.search_preparing = 1

    assert await town.found() == ["The key is here."]

    town.at.fake.search_preparing = 5
    with pytest.raises(DeliveryError, match=NOT_READY):
        await town.found()
