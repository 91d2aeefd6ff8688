"""The roles and rights of users are those of now, and are not guessed when a platform is away."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.conversations.access import AccessSettings
from bot.conversations.pairing import ALPHABET, MOST_LISTED, VALID_FOR, Pairings
from bot.conversations.rights import FRESH, UNREADABLE, USABLE, Memberships, RightsDirectory
from bot.errors import DeliveryError, NotAllowedError
from bot.platforms.reading import Membership
from bot.rights.effective import Rights
from bot.rights.settings import RolesSettings
from bot.subagents.requests import Caller
from bot.values import Identity, Place, Role
from db import audit, pairings, standing_grants
from db.audit import Filter
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.commands import command_runner
from tests.fakes.office import FakeOffice, limits
from tests.fakes.outlet import FakeOutlet
from tests.fakes.stored import Stored

#: Makes a directory.
Directory = Callable[..., RightsDirectory]

ANN = Identity("discord", "", "10001")
SERVER = Place("discord", "70010", "80010")
LEADS = "discord-role:70010:60010"
ROLES = RolesSettings.model_validate(
    {"named": {"lead": {"members": [LEADS]}, "guest": {"tools": [], "places": ["discord:70010"]}}}
    | {"default": "guest"}
)


@pytest.fixture
def outlet() -> FakeOutlet:
    return FakeOutlet("discord")


@pytest.fixture
def slack() -> FakeOutlet:
    return FakeOutlet("slack")


@pytest.fixture
def directory(
    outlet: FakeOutlet, slack: FakeOutlet, clock: FakeClock, database: Database
) -> Directory:
    def made(roles: RolesSettings = ROLES, direct: str = "members", **access: Any) -> Any:
        return RightsDirectory(
            settings=roles,
            memberships=Memberships({"discord": outlet, "slack": slack}, clock),
            expand=frozenset,
            access=AccessSettings(**access),
            direct=lambda _: direct,
            pairings=Pairings(database, clock),
            database=database,
            now=clock,
        )

    return made


async def test_a_role_that_is_removed_counts_no_more_within_two_minutes(
    outlet: FakeOutlet, clock: FakeClock, directory: Directory
) -> None:
    known = directory(ROLES)
    outlet.members[ANN, ""] = Membership(groups=frozenset({LEADS}))

    first = await known.role_of(ANN, SERVER)
    outlet.members.clear()
    soon = await known.role_of(ANN, SERVER)
    clock.advance(FRESH.total_seconds())
    later = await known.rights(ANN, SERVER)

    assert (first, soon, later.role) == ("lead", "lead", "guest")
    assert later.refusal("tools", "shell")
    assert len(outlet.looked_up) == 2


async def test_who_has_no_access_to_one_channel_has_it_to_another(
    clock: FakeClock, database: Database
) -> None:
    class Picky(FakeOutlet):
        """Answers in one channel."""

        async def membership(
            self, user: Identity, place: Place, *, groups: bool = True
        ) -> Membership:
            """Return a membership of that channel alone."""
            return Membership(present=place.channel == SERVER.channel)

    known = Memberships({"discord": Picky("discord")}, clock)
    elsewhere = replace(SERVER, channel="80011")

    found = [(await known.of(ANN, place)).present for place in (elsewhere, SERVER, elsewhere)]

    assert found == [False, True, False]


async def test_what_an_event_tells_is_not_asked_for(
    outlet: FakeOutlet, clock: FakeClock, directory: Directory
) -> None:
    known = directory(ROLES)

    known.memberships.note(ANN, SERVER, Membership(groups=frozenset({LEADS})))

    assert await known.role_of(ANN, SERVER) == "lead"
    assert outlet.looked_up == []


async def test_without_an_answer_a_membership_holds_for_five_minutes_and_then_nothing_is_allowed(
    outlet: FakeOutlet, clock: FakeClock, directory: Directory
) -> None:
    known = directory(ROLES)
    known.memberships.note(ANN, SERVER, Membership(groups=frozenset({LEADS})))
    outlet.unreadable = DeliveryError("Discord is away.")

    clock.advance((USABLE - timedelta(seconds=1)).total_seconds())
    held = await known.role_of(ANN, SERVER)
    clock.advance(1)

    assert held == "lead"
    with pytest.raises(NotAllowedError, match="cannot check your role here at the moment"):
        await known.role_of(ANN, SERVER)


async def test_groups_that_may_not_be_read_are_not_taken_for_none(
    outlet: FakeOutlet, clock: FakeClock, directory: Directory
) -> None:
    outlet.members[ANN, ""] = Membership(groups=None)

    with pytest.raises(NotAllowedError) as refused:
        await directory(ROLES).rights(ANN, SERVER)

    assert str(refused.value) == UNREADABLE


async def test_a_role_is_refused_outside_of_its_places(
    outlet: FakeOutlet, clock: FakeClock, directory: Directory
) -> None:
    known = directory(ROLES)

    await known.check(ANN, SERVER)

    with pytest.raises(NotAllowedError, match="The role `guest` may not use this bot here"):
        await known.check(ANN, Place("discord", "70020", "80020"))
    await directory(RolesSettings()).check(ANN, Place("discord", "70020", "1"))


async def test_without_roles_no_groups_are_looked_up(
    outlet: FakeOutlet, clock: FakeClock, directory: Directory
) -> None:
    known = directory(RolesSettings())

    assert await known.rights(ANN, SERVER) == Rights((), "user")
    assert not await known.is_among(frozenset({"discord:10001"}), ANN, SERVER)
    assert outlet.looked_up == [(ANN, "70010")]
    assert outlet.with_groups == []


async def test_a_role_of_the_platform_makes_an_admin_only_if_it_is_known(
    outlet: FakeOutlet, clock: FakeClock, directory: Directory
) -> None:
    known = directory(RolesSettings())
    outlet.members[ANN, "70010"] = Membership(groups=frozenset({LEADS}))

    assert await known.is_among({LEADS}, ANN, SERVER)
    assert not await known.is_among({LEADS}, ANN, Place("discord", "70020", "1"))
    clock.advance(USABLE.total_seconds())
    outlet.unreadable = DeliveryError("Discord is away.")
    assert not await known.is_among({LEADS}, ANN, SERVER)


# -- access ----------------------------------------------------------------------------------------

DIRECT = Place("discord", "", "55")


async def test_direct_messages_are_for_members_of_a_server_with_the_bot(
    outlet: FakeOutlet, clock: FakeClock, directory: Directory
) -> None:
    known = directory(RolesSettings())
    await known.check(ANN, DIRECT)
    outlet.members[ANN, ""] = Membership(present=False)

    clock.advance(FRESH.total_seconds())

    with pytest.raises(NotAllowedError, match="members of a server or workspace that has me"):
        await known.check(ANN, DIRECT)
    await known.check(ANN, SERVER)
    assert await known.lost(ANN, DIRECT)


async def test_when_direct_messages_are_for_nobody_what_began_there_is_ended(
    directory: Directory,
) -> None:
    known = directory(RolesSettings(), "nobody")

    with pytest.raises(NotAllowedError, match="I do not answer direct messages"):
        await known.check(ANN, DIRECT)
    with pytest.raises(NotAllowedError, match="no access"):
        await known.rights(ANN, DIRECT)
    assert await known.lost(ANN, DIRECT)
    assert not await known.lost(ANN, SERVER)


async def test_a_user_of_another_company_is_no_member_in_direct_messages(
    slack: FakeOutlet, directory: Directory
) -> None:
    stranger, place = Identity("slack", "T20", "U20"), Place("slack", "T10", "D10")
    slack.members[stranger, "T10"] = Membership(foreign=True)

    with pytest.raises(NotAllowedError, match="members of a server"):
        await directory(RolesSettings()).check(stranger, place)
    assert await directory(RolesSettings()).lost(stranger, place)


async def test_an_account_of_the_organisation_is_a_member_in_its_workspaces(
    slack: FakeOutlet, clock: FakeClock, directory: Directory
) -> None:
    # The bot is installed in one workspace of the organisation E10.
    user, place = Identity("slack", "E10", "U20"), Place("slack", "T10", "D10")
    known = directory(RolesSettings())

    await known.check(user, place)
    assert not await known.lost(user, place)

    slack.unreadable = DeliveryError("Slack is away.")
    clock.advance(USABLE.total_seconds())
    with pytest.raises(NotAllowedError, match="Try again in a minute"):
        await known.check(user, place)
    assert not await known.lost(user, place)


async def test_a_code_admits_to_direct_messages_once_an_admin_confirms_it(
    clock: FakeClock, database: Database, directory: Directory
) -> None:
    known = directory(RolesSettings(), "paired")

    with pytest.raises(NotAllowedError, match="Give an admin this code") as asked:
        await known.check(ANN, DIRECT)
    with pytest.raises(NotAllowedError) as again:
        await known.check(ANN, DIRECT)
    found = await database.read(pairings.of_user, ANN)
    clock.advance(VALID_FOR.total_seconds())
    with pytest.raises(NotAllowedError) as later:
        await known.check(ANN, DIRECT)
    newer = await database.read(pairings.of_user, ANN)
    assert found is not None
    assert newer is not None
    await database.write(pairings.confirm, newer.code, by="root", now=clock())
    await known.check(ANN, DIRECT)

    assert found.code in str(asked.value)
    assert set(found.code) <= set(ALPHABET)
    assert str(again.value) == str(asked.value)
    assert found.code not in str(later.value)
    assert newer.code in str(later.value)
    assert not await known.lost(ANN, DIRECT)
    await known.check(ANN, SERVER)


async def test_a_grant_of_a_role_of_a_channel_counts_in_that_channel_alone(
    clock: FakeClock, database: Database, directory: Directory
) -> None:
    roles = {
        "ops": {"members": ["discord-channel:70010:80010"]},
        "lead": {"members": [LEADS]},
    }
    known = directory(RolesSettings.model_validate({"named": roles}))
    await Stored(database, clock).person(ANN)
    rules = [
        "shell:git *: ask:ops",
        "shell:rm *: ask:removed",
        "shell:ls *: ask:lead",
        "post: ask:user",
        "mail: ask",
    ]
    async with database.transaction() as tx:
        until, now = clock() + timedelta(days=1), clock()
        await standing_grants.give(tx, ANN.key, SERVER, rules, by=ANN.key, until=until, now=now)

    here = await (await known.rights(ANN, SERVER)).always()
    there = await (await known.rights(ANN, Place("discord", "70010", "80020"))).always()

    assert here == frozenset(rules)
    assert there == frozenset(rules[2:])


async def test_an_admin_admits_no_account_of_another_workspace(
    database: Database, clock: FakeClock
) -> None:
    office = FakeOffice(database, limits(), clock)
    stranger = Identity("slack", "T20", "U2")
    for user in (stranger, ANN):
        await Stored(office.database, clock).person(user)
        await database.write(pairings.put, user, f"CODE{user.account}", clock())
    admin = Caller.of_user(ANN, Role.ADMIN, Place("slack", "T10", "C1"))
    run = command_runner(office).run

    refused = [await run(f"/retinue pair CODE{user.account}", admin) for user in (stranger, ANN)]
    await database.write(pairings.confirm, "CODEU2", by="discord::1", now=clock())
    kept = await run("/retinue pair remove slack:T20:U2", admin)

    assert all("No one has got that code" in each.text for each in refused)
    assert "is not admitted by a code" in kept.text
    assert [each.user for each in await database.read(pairings.confirmed, limit=9)] == [stranger]
    assert await database.read(audit.newest, Filter(), limit=9) == []


async def test_who_admits_an_account_and_withdraws_it_is_recorded(
    database: Database, clock: FakeClock
) -> None:
    office, user = FakeOffice(database, limits(), clock), Identity("slack", "T10", "U1")
    await Stored(office.database, clock).person(user)
    await database.write(pairings.put, user, "CODE", clock())
    admin = Caller.of_user(ANN, Role.ADMIN, Place("slack", "T10", "C1"))

    for words in ("pair CODE", "pair CODE", "pair remove slack:T10:U1"):
        await command_runner(office).run(f"/retinue {words}", admin)
        clock.advance(1)

    found = [each.entry for each in await database.read(audit.newest, Filter(), limit=9)]
    assert [(each.action, each.actor, each.owner) for each in found] == [
        ("unpair", ANN.key, user.key),
        ("pair", ANN.key, user.key),
    ]


async def test_an_admin_sees_every_account_of_the_workspace_that_is_admitted(
    database: Database, clock: FakeClock
) -> None:
    office = FakeOffice(database, limits(), clock)
    first = Identity("slack", "T10", "U1")
    others = [Identity("discord", "", str(20_000 + number)) for number in range(MOST_LISTED)]
    for number, user in enumerate((first, *others)):
        await Stored(office.database, clock).person(user)
        clock.advance(1)
        async with office.database.transaction() as tx:
            await pairings.put(tx, user, f"CODE{number}", clock())
            await pairings.confirm(tx, f"CODE{number}", by="discord::1", now=clock())
    admin = Caller.of_user(ANN, Role.ADMIN, Place("slack", "T10", "C1"))
    operator = Caller.of_user(ANN, Role.OPERATOR, SERVER)

    listed = await command_runner(office).run("/retinue pair", admin)
    everyone = await command_runner(office).run("/retinue pair", operator)

    assert "slack:T10:U1" in listed.text
    assert "discord:" not in listed.text
    assert "and 1 older ones" in everyone.text


@pytest.mark.parametrize(
    ("access", "membership", "lost"),
    [
        ({}, Membership(), False),
        ({}, Membership(present=False), True),
        ({"blocked": ("discord:10001",)}, Membership(), True),
        ({"admins": ("discord:10001",)}, Membership(present=False), True),
    ],
)
async def test_access_is_lost_by_leaving_and_by_being_blocked(
    outlet: FakeOutlet, directory: Directory, access: Any, membership: Membership, lost: bool
) -> None:
    outlet.members[ANN, "70010"] = membership
    known = directory(RolesSettings(), **access)

    assert bool(await known.lost(ANN, SERVER)) is lost
    if lost:
        with pytest.raises(NotAllowedError, match="no access to this bot here any more"):
            await known.rights(ANN, SERVER)
    else:
        await known.rights(ANN, SERVER)


async def test_access_is_lost_with_the_role_that_admitted_to_the_place(
    outlet: FakeOutlet, clock: FakeClock, directory: Directory
) -> None:
    known, yard = directory(ROLES), Place("discord", "70010", "90010")
    elsewhere = Place("discord", "70020", "80010")
    outlet.members[ANN, ""] = Membership(groups=frozenset({LEADS}))

    assert not await known.lost(ANN, yard)
    assert await known.lost(ANN, elsewhere)
    clock.advance(USABLE.total_seconds())
    outlet.unreadable = DeliveryError("Discord is away.")
    assert not await known.lost(ANN, yard)
