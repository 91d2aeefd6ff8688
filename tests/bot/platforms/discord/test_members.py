"""The membership and the roles of users on Discord, without a members intent."""

from collections.abc import AsyncIterator

import pytest

from bot.platforms.discord.people import identity_of
from bot.platforms.reading import Membership
from bot.values import Place
from tests.bot.platforms.discord.speaking import Stand, stand

GONE = Membership(present=False)


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


async def test_a_server_in_which_the_bot_does_not_answer_makes_nobody_a_member() -> None:
    """Everyone may add a public bot to a server of their own, and write to it directly."""
    async with stand(guilds=("20001",)) as at:
        alice = identity_of(at.alice.id)
        places = (Place("discord", "", "55"), Place("discord", str(at.guild.id), "1"))

        assert [await at.outlet.membership(alice, place) for place in places] == [GONE, GONE]
