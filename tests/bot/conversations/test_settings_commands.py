"""A user reads what applies to them; what applies to others is read by the admins there."""

from dataclasses import replace

import pytest

from bot.conversations.commands import CommandRunner
from bot.conversations.settings_commands import NOT_THERE
from bot.subagents.limits import SubagentSettings
from bot.values import Identity, Place, Role
from db import audit
from db.audit import Filter
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.commands import command_runner
from tests.fakes.office import FakeOffice, caller, model_of

HALL, YARD = Place("discord", "7001", "11"), Place("discord", "7002", "22")
EVE, ROOT = Identity("discord", "", "66"), Identity("discord", "", "77")


class Report:
    """Describes whom and where it was asked about."""

    async def lines(self, user: Identity, place: Place) -> list[str]:
        return [f"- asked: {user.account} in {place.workspace}:{place.channel}"]

    async def standing(self, user: Identity, place: Place) -> frozenset[str]:
        return frozenset({f"mail:{user.account}: ask"})


@pytest.fixture
def commands(database: Database, clock: FakeClock) -> CommandRunner:
    made = command_runner(FakeOffice(database, SubagentSettings(), clock))
    return replace(made, report=Report())


async def views(commands: CommandRunner) -> list[tuple[str, str, str, str]]:
    found = await commands.database.read(audit.newest, Filter(action="view"), limit=9)
    return [
        (each.entry.actor, each.entry.owner, each.entry.subject, each.entry.effect)
        for each in found
    ]


async def test_ones_own_settings_are_shown_and_not_recorded(
    commands: CommandRunner, alice: Identity
) -> None:
    for typed in ("", f" --user discord:{alice.account}"):
        shown = await commands.run(f"/retinue settings{typed}", caller(alice, place=HALL))
        assert f"asked: {alice.account} in 7001:11" in shown.text
        assert f"no longer asks: `mail:{alice.account}: ask`" in shown.text
        assert shown.private

    assert await views(commands) == []


async def test_admins_see_what_applies_to_others_in_their_server_and_that_is_recorded(
    commands: CommandRunner,
) -> None:
    admin = caller(ROOT, role=Role.ADMIN, place=HALL)

    here = await commands.run("/retinue settings --user discord:66", admin)
    mention = await commands.run("/retinue settings --user <@66>", admin)
    there = await commands.run("/retinue settings --place discord:7001:33", admin)
    elsewhere = await commands.run(
        "/retinue settings --user discord:66 --place discord:7002:22", admin
    )
    operator = await commands.run(
        "/retinue settings --user discord:66 --place discord:7002:22",
        caller(ROOT, role=Role.OPERATOR, place=HALL),
    )

    assert "asked: 66 in 7001:11" in here.text
    assert "`discord:66` in `discord:7001:11`" in here.text
    assert mention.text == here.text
    assert f"asked: {ROOT.account} in 7001:33" in there.text
    assert (elsewhere.failed, elsewhere.text) == (True, NOT_THERE)
    assert "asked: 66 in 7002:22" in operator.text
    assert await views(commands) == [
        (ROOT.key, EVE.key, "discord:7002:22", "settings"),
        (ROOT.key, "", "discord:7001:33", "settings"),
        (ROOT.key, EVE.key, "discord:7001:11", "settings"),
        (ROOT.key, EVE.key, "discord:7001:11", "settings"),
    ]


async def test_nobody_else_sees_what_applies_to_others(
    commands: CommandRunner, alice: Identity, bob: Identity
) -> None:
    refused = [
        await commands.run(f"/retinue settings {typed}", who)
        for who in (caller(alice, place=HALL), model_of(bob, role=Role.OPERATOR, place=HALL))
        for typed in ("--user discord:66", "--place discord:7001:33", "--place discord:7002:22")
    ]
    malformed = [
        await commands.run(f"/retinue settings {typed}", caller(bob, role=Role.OPERATOR))
        for typed in ("--user nobody", "--place moon:1")
    ]

    assert {(each.failed, each.text) for each in refused} == {(True, NOT_THERE)}
    assert all(each.failed for each in malformed)
    assert await views(commands) == []
