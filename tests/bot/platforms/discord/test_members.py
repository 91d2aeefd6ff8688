"""The membership and the roles of users on Discord, without a members intent."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.errors import DeliveryError
from bot.platforms.discord.people import DiscordAccessPolicy, identity_of
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.reading import Membership
from bot.values import Place
from tests.bot.platforms.discord.speaking import Stand, stand

GONE = Membership(present=False)
#: Servers, beside the one where users are.
MANY = 20


@pytest.fixture
async def at() -> AsyncIterator[Stand]:
    async with stand() as opened:
        yield opened


async def test_the_roles_of_a_member_name_their_server(at: Stand) -> None:
    role = at.fake.add_role(at.guild, "farmers")
    at.guild.members[at.alice.id].roles.append(role)
    place = Place("discord", str(at.guild.id), "1")

    found = await at.outlet.membership(identity_of(at.alice.id), place)

    server = at.guild.id
    names = {f"discord-role:{server}:{role.id}", f"discord-role:{server}:{server}"}
    assert found == Membership(groups=frozenset(names))


async def test_a_user_who_left_and_a_server_without_the_bot_have_no_members(at: Stand) -> None:
    alice, place = identity_of(at.alice.id), Place("discord", str(at.guild.id), "1")
    direct = Place("discord", "", "55")

    there = await at.outlet.membership(alice, direct)
    at.fake.leave(at.guild, at.alice)

    assert there == Membership()
    assert await at.outlet.membership(alice, place) == GONE
    assert await at.outlet.membership(alice, direct) == GONE
    assert await at.outlet.membership(alice, Place("discord", "99999", "1")) == GONE


async def test_a_user_is_looked_for_in_many_servers_at_once(at: Stand) -> None:
    for number in range(MANY):
        at.fake.add_guild(f"Village {number}")
    hold, member = asyncio.Event(), "/guilds/{id}/members/{id}"
    at.fake.fail("GET", member, times=MANY, hold=hold)
    stranger, direct = identity_of(at.fake.add_user("eve").id), Place("discord", "", "55")

    looking = asyncio.ensure_future(at.outlet.membership(stranger, direct))
    # None of them is answered before all are asked.
    await at.fake.until(lambda: len(at.fake.requests("GET", member)) == MANY, "the requests")
    hold.set()

    assert await looking == GONE
    assert len(at.fake.requests("GET", member)) == MANY + 1


async def test_an_unreachable_server_makes_nobody_absent(at: Stand) -> None:
    at.fake.fail("GET", "/guilds/{id}/members/{id}", times=None, status=503)

    with pytest.raises(DeliveryError):
        await at.outlet.membership(identity_of(at.alice.id), Place("discord", "", "55"))


async def test_a_channel_in_which_the_bot_does_not_answer_makes_nobody_a_member() -> None:
    async with stand() as at:
        category = at.fake.add_channel(at.guild, "farms", kind="category")
        farm = at.fake.add_channel(at.guild, "farm", category=category)
        policy = DiscordAccessPolicy(DiscordSettings(channels=("70007", str(category.id))))
        members = replace(at.outlet._members, policy=policy)
        server, general = str(at.guild.id), str(at.channel.id)
        places = [
            Place("discord", server, channel, thread)
            for channel, thread in (
                (general, ""),
                (general, "70007"),
                (str(farm.id), ""),
                ("99", ""),
            )
        ]

        found = [
            (await members.membership(identity_of(at.alice.id), each)).present for each in places
        ]

        assert found == [False, True, True, False]


async def test_a_server_in_which_the_bot_does_not_answer_makes_nobody_a_member() -> None:
    """Everyone may add a public bot to a server of their own, and write to it directly."""
    async with stand(guilds=("20001",)) as at:
        alice = identity_of(at.alice.id)
        places = (Place("discord", "", "55"), Place("discord", str(at.guild.id), "1"))

        assert [await at.outlet.membership(alice, place) for place in places] == [GONE, GONE]
