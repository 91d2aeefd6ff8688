"""The bot reads other channels for a user with the rights that this user has on Slack."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace

import pytest

from bot.errors import DeliveryError
from bot.platforms.messages import PastMessage
from bot.platforms.reading import NOT_ADMITTED, NOT_FOUND, PRIVATE, ReadRequest
from bot.platforms.slack import reading
from bot.platforms.slack.outlet import SlackOutlet
from bot.platforms.slack.reading import GUESTS, NOT_ASKED, SEARCH_SCOPE
from bot.values import Identity, Place
from tests.bot.platforms.slack.speaking import AT_ONCE, Stand, settings_for, stand
from tests.fakes.slack.messages import Message
from tests.fakes.slack.shapes import User


@dataclass
class Office:
    """A workspace with a channel where Alice asks, and others."""

    at: Stand

    async def channel(
        self,
        name: str,
        *,
        private: bool = False,
        members: Iterable[User] | None = None,
        text: str = "The key is here.",
        bot: bool = True,
    ) -> Message:
        """Make a channel, and return what Bob said in it."""
        inside = None if members is None else [*members, self.at.bob]
        made = self.at.fake.add_channel(name, private=private, members=inside, bot=bot)
        return await self.at.fake.say(self.at.bob, made, text)

    async def linked(
        self, message: Message, place: Place | None = None, *, user: User | None = None
    ) -> list[str]:
        """Return the texts that a user reads through a link, asked for in a place."""
        request = self.request(place, user)
        found = await self.at.outlet.linked(message.permalink, request)
        return [each.text for each in found]

    async def found(self, place: Place | None = None) -> list[PastMessage]:
        """Return the messages that a search for "key" finds."""
        request = replace(self.request(place), search_token=f"{self.at.alice.id}.1.search")
        return await self.at.outlet.search("key", request)

    def request(self, place: Place | None = None, user: User | None = None) -> ReadRequest:
        team, account = self.at.fake.team.id, (user or self.at.alice).id
        who = Identity("slack", team, account)
        return ReadRequest(user=who, place=place or self.at.place, limit=10)

    @property
    def alone(self) -> Place:
        """Alice's direct messages."""
        return Place("slack", self.at.fake.team.id, self.at.direct.id)


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    async with stand() as opened:
        yield Office(opened)


async def test_a_link_is_read_with_what_was_said_before_it(office: Office) -> None:
    said = await office.channel("news", text="one")
    last = await office.at.fake.say(office.at.bob, said.channel, "two")

    assert await office.linked(last) == ["one", "two"]


async def test_a_thread_is_read_with_its_answers(office: Office) -> None:
    said = await office.channel("news", text="the question")
    answers = [
        await office.at.fake.say(office.at.bob, said.channel, f"answer {number}", thread=said)
        for number in range(20)
    ]
    await office.at.fake.say(office.at.bob, said.channel, "beside it")

    assert await office.linked(said) == ["the question", *(f"answer {n}" for n in range(9))]
    around = await office.linked(answers[15])
    assert (len(around), "answer 15" in around, "beside it" in around) == (10, True, False)
    assert (await office.linked(answers[19]))[-1] == "answer 19"


async def test_a_private_channel_of_others_is_not_read_wherever_one_asks(office: Office) -> None:
    said = await office.channel("board", private=True, members=[])

    for place in (office.at.place, office.alone):
        with pytest.raises(DeliveryError, match=NOT_FOUND):
            await office.linked(said, place)


async def test_a_private_channel_is_read_where_nobody_else_reads(office: Office) -> None:
    said = await office.channel("board", private=True, members=[office.at.alice])

    assert await office.linked(said, office.alone) == ["The key is here."]
    with pytest.raises(DeliveryError, match=PRIVATE):
        await office.linked(said)


async def test_a_group_conversation_is_as_private(office: Office) -> None:
    group = office.at.fake.mpim(office.at.alice, office.at.bob)
    said = await office.at.fake.say(office.at.bob, group, "The key is here.")

    assert await office.linked(said, office.alone) == ["The key is here."]
    with pytest.raises(DeliveryError, match=PRIVATE):
        await office.linked(said)


async def test_this_place_is_read_even_if_it_is_private(office: Office) -> None:
    said = await office.channel("board", private=True, members=[office.at.alice])
    here = Place("slack", office.at.fake.team.id, said.channel.id)

    assert await office.linked(said, here) == ["The key is here."]


async def test_direct_messages_are_read_in_themselves_alone(office: Office) -> None:
    said = await office.at.fake.say(office.at.alice, office.at.direct, "My code is 1.")
    of_bob = await office.at.fake.say(office.at.bob, office.at.fake.dm(office.at.bob), "Code 2.")

    assert await office.linked(said, office.alone) == ["My code is 1."]
    for message, place in ((said, office.at.place), (of_bob, office.alone)):
        with pytest.raises(DeliveryError, match=NOT_FOUND):
            await office.linked(message, place)


async def test_a_guest_reads_the_channels_of_which_the_guest_is_a_member(office: Office) -> None:
    said = await office.channel("news", members=[])
    own = await office.channel("welcome", members=[office.at.alice])
    office.at.alice.guest = True

    with pytest.raises(DeliveryError, match=NOT_FOUND):
        await office.linked(said, office.alone)
    assert await office.linked(own, office.alone) == ["The key is here."]


async def test_where_guests_read_other_channels_are_not_shown(office: Office) -> None:
    said = await office.channel("news")
    office.at.fake.add_user("Gustav").guest = True
    outside = office.at.fake.add_channel("staff", members=[office.at.alice])

    with pytest.raises(DeliveryError, match=PRIVATE):
        await office.linked(said)
    with pytest.raises(DeliveryError, match=GUESTS):
        await office.found()
    staff = Place("slack", office.at.fake.team.id, outside.id)
    assert await office.linked(said, staff) == ["The key is here."]


async def test_where_another_company_reads_other_channels_are_not_shown(office: Office) -> None:
    said = await office.channel("news")
    office.at.channel.shared_with = [office.at.fake.add_team("Partner")]

    with pytest.raises(DeliveryError, match=PRIVATE):
        await office.linked(said)
    with pytest.raises(DeliveryError, match=GUESTS):
        await office.found()


async def test_a_workspace_with_too_many_users_to_tell_guests_shows_nothing(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PEOPLE", 1)
    monkeypatch.setattr(reading, "MAX_PAGES", 2)
    said = await office.channel("news")

    with pytest.raises(DeliveryError, match=PRIVATE):
        await office.linked(said)


async def test_a_channel_with_too_many_members_to_tell_guests_shows_nothing(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = await office.channel("news")
    office.at.fake.add_user("Gustav").guest = True
    outside = office.at.fake.add_channel("staff", members=[office.at.alice])
    staff = Place("slack", office.at.fake.team.id, outside.id)
    assert await office.linked(said, staff) == ["The key is here."]
    monkeypatch.setattr(reading, "PEOPLE", 1)
    monkeypatch.setattr(reading, "MAX_PAGES", 1)

    with pytest.raises(DeliveryError, match=PRIVATE):
        await office.linked(said, staff)


async def test_a_public_channel_of_another_workspace_is_read_by_its_members_in_private_alone(
    office: Office,
) -> None:
    team, grant = office.at.fake.team, office.at.fake.team.grant
    assert grant is not None
    other = office.at.fake.add_team("Other")
    said = await office.channel("news", members=[])
    said.channel.team = other
    # An installation for the organisation reads the channels of all its workspaces.
    grant.team, grant.enterprise, team.enterprise, other.enterprise = None, "E1", "E1", "E1"

    for place in (office.at.place, office.alone):
        with pytest.raises(DeliveryError, match=NOT_FOUND):
            await office.linked(said, place)
    said.channel.members.add(office.at.alice.id)
    assert await office.linked(said, office.alone) == ["The key is here."]
    with pytest.raises(DeliveryError, match=PRIVATE):
        await office.linked(said)


async def test_a_user_who_was_deactivated_reads_no_other_channel(office: Office) -> None:
    said = await office.channel("news", members=[])
    office.at.alice.deleted = True

    with pytest.raises(DeliveryError, match=NOT_FOUND):
        await office.linked(said, office.alone)


async def test_the_guests_of_a_workspace_are_asked_for_once_in_a_while(office: Office) -> None:
    said = await office.channel("news")

    for _ in range(3):
        await office.linked(said)

    assert len(office.at.called("users.list")) == 1


async def test_channels_that_the_admins_left_out_are_not_read(office: Office) -> None:
    said = await office.channel("news")
    settings = settings_for(office.at.fake).model_copy(update={"channels": (office.at.channel.id,)})
    office.at.outlet = SlackOutlet(office.at.clients, settings, office.at.tasks, tempo=AT_ONCE)

    with pytest.raises(DeliveryError, match=NOT_ADMITTED):
        await office.linked(said)
    assert [each.place.channel for each in await office.found()] == []


async def test_a_channel_without_the_bot_is_named_as_such(office: Office) -> None:
    said = await office.channel("news", bot=False)

    with pytest.raises(DeliveryError, match="not in that channel: invite it"):
        await office.linked(said)


async def test_a_missing_scope_is_named(office: Office) -> None:
    said = await office.channel("news")
    office.at.fake.granted_scopes = ["channels:history", "users:read"]

    with pytest.raises(DeliveryError, match="channels:read, groups:read and mpim:read"):
        await office.linked(said)
    with pytest.raises(DeliveryError, match=SEARCH_SCOPE):
        await office.found(office.alone)


@pytest.mark.parametrize(
    "link",
    [
        "",
        "https://example.org/archives/C0123/p1712345678123456",
        "https://acme.slack.com.example.org/archives/C0123/p1712345678123456",
        "https://acme.slack.com/archives/C0123",
    ],
)
async def test_other_links_are_refused(office: Office, link: str) -> None:
    with pytest.raises(DeliveryError, match="no link to a message of Slack"):
        await office.at.outlet.linked(link, office.request())


async def test_a_message_that_is_gone_is_not_found(office: Office) -> None:
    said = await office.channel("news")
    await office.at.fake.say(office.at.bob, said.channel, "something else")
    await office.at.fake.delete(said)

    with pytest.raises(DeliveryError, match=NOT_FOUND):
        await office.linked(said)


async def test_a_deleted_message_with_replies_is_not_found(office: Office) -> None:
    said = await office.channel("news", text="The code is 1234.")
    replies = [
        await office.at.fake.say(office.at.bob, said.channel, text, thread=said)
        for text in ("one", "two")
    ]
    await office.at.fake.delete(said)

    with pytest.raises(DeliveryError, match=NOT_FOUND):
        await office.linked(said)
    assert await office.linked(replies[0]) == ["one", "two"]
    there = Place("slack", office.at.fake.team.id, said.channel.id, said.ts)
    past = await office.at.outlet.history(there, "", 10, opening=True)
    assert [each.text for each in past] == ["one", "two"]


async def test_a_search_tells_where_each_message_stands(office: Office) -> None:
    said = await office.channel("news")

    (found,) = await office.found()

    assert (found.channel_name, found.author_name, found.text) == ("news", "bob", said.text)
    assert await office.at.outlet.linked(found.link, office.request()) != []


async def test_a_search_needs_the_permission_of_a_message(office: Office) -> None:
    with pytest.raises(DeliveryError, match=NOT_ASKED):
        await office.at.outlet.search("key", office.request())
    expired = replace(office.request(), search_token="expired")
    with pytest.raises(DeliveryError, match=NOT_ASKED):
        await office.at.outlet.search("key", expired)
