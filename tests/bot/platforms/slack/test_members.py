"""The membership and the user groups of users on Slack."""

from collections.abc import AsyncIterator

import pytest

from bot.platforms.reading import Membership
from bot.platforms.slack.members import FRESH_SECONDS, SlackMembers
from bot.values import Identity, Place
from tests.bot.platforms.slack.hearing import Counter, counter
from tests.bot.platforms.slack.test_names import Watch
from tests.fakes.slack.server import FakeSlack

GONE = Membership(present=False)


@pytest.fixture
async def at(slack: FakeSlack) -> AsyncIterator[Counter]:
    async with counter(slack) as opened:
        yield opened


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def members(at: Counter, watch: Watch) -> SlackMembers:
    return SlackMembers(at.receiver.outlet.sender, at.receiver.reception, monotonic=watch)


def alice_of(at: Counter) -> tuple[Identity, Place]:
    team = at.alice.team.id
    return Identity("slack", team, at.alice.id), Place("slack", team, at.general.id)


async def test_the_user_groups_of_a_member_are_read_and_again_after_a_minute(
    at: Counter, members: SlackMembers, watch: Watch
) -> None:
    user, place = alice_of(at)
    at.fake.world.group_members = {
        (place.workspace, "S10"): {at.alice.id},
        (place.workspace, "S20"): set(),
    }

    first = await members.membership(user, place)
    at.fake.world.group_members = {}
    same = await members.membership(user, place)
    watch.now += FRESH_SECONDS
    later = await members.membership(user, place)

    assert first == same == Membership(groups=frozenset({f"slack-group:{place.workspace}:S10"}))
    assert later == Membership()


async def test_a_deactivated_or_unknown_user_is_no_member(
    at: Counter, members: SlackMembers
) -> None:
    user, place = alice_of(at)
    unknown = Identity("slack", place.workspace, "U0NOBODY")

    at.alice.deleted = True

    assert await members.membership(user, place) == GONE
    assert await members.membership(unknown, place) == GONE


async def test_a_user_of_another_company_is_present_while_in_the_channel(
    at: Counter, members: SlackMembers
) -> None:
    user, place = alice_of(at)
    stranger = Identity("slack", "T0OTHER", user.account)

    inside = await members.membership(stranger, place)
    at.general.members.discard(at.alice.id)
    outside = await members.membership(stranger, place)

    assert inside.present
    assert not outside.present


async def test_an_account_of_the_organisation_is_not_foreign_in_its_workspaces(
    slack: FakeSlack,
) -> None:
    slack.team.enterprise = "E0FIRM"
    async with counter(slack) as at:
        members = SlackMembers(at.receiver.outlet.sender, at.receiver.reception)
        user, place = at.who(at.alice), alice_of(at)[1]
        # Of the user's own direct messages, `conversations.members` need not be asked.
        at.general.members.discard(at.alice.id)

        own = await members.membership(user, place)
        other = await members.membership(Identity("slack", "E0OTHER", at.bob.id), place)

    assert user.workspace == "E0FIRM"
    assert (own.present, own.foreign) == (True, False)
    assert (other.present, other.foreign) == (True, True)


async def test_without_the_scope_no_group_is_known(at: Counter, members: SlackMembers) -> None:
    user, place = alice_of(at)
    for grant in at.fake.world.grants.values():
        grant.scopes.remove("usergroups:read")

    assert await members.membership(user, place) == Membership(groups=None)
