"""Each workspace has a token of its own: encrypted, believed for a minute, gone when removed."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from sqlalchemy import select
from sqlalchemy.engine import make_url

from bot.errors import DeliveryError
from bot.platforms.slack import installations as module
from bot.platforms.slack.clients import Clients, Installed
from bot.platforms.slack.installations import (
    ABSENCE_SECONDS,
    CACHE_SECONDS,
    MAX_CACHED_WORKSPACES,
    EncryptedInstallationStore,
)
from bot.platforms.slack.problems import NOT_INSTALLED, RefusedError
from bot.platforms.slack.sending import Draft, Sender
from bot.values import Place
from db.database import Database, DatabaseSettings
from db.tables import slack_installs as table
from tests.bot.platforms.slack.installing import (
    SlowDatabase,
    found,
    installation_of,
    installed_as,
    new_key,
    nowhere,
    settings_for,
)
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.shapes import Team


class Monotonic:
    """A clock of seconds that moves when a test says so."""

    seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


class Fleet:
    """Processes of one bot, with one database and one clock."""

    def __init__(
        self, slack: FakeSlack, database: Database, session: aiohttp.ClientSession
    ) -> None:
        self.slack = slack
        self.database = database
        self.session = session
        self.monotonic = Monotonic()

    def process(self, *, key: str = "", client_id: str = "") -> EncryptedInstallationStore:
        more = {"encryption_key": key} if key else {}
        more |= {"client_id": client_id} if client_id else {}
        settings = settings_for(self.slack, **more)
        return EncryptedInstallationStore(
            self.database, settings, self.session, monotonic=self.monotonic
        )

    async def install(
        self, installs: EncryptedInstallationStore, team: Team, *, org_wide: bool = False
    ) -> Installed:
        grant = self.slack.world.grant(team, org_wide=org_wide)
        await installs.async_save(installation_of(grant))
        return installed_as(grant)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
def fleet(slack: FakeSlack, database: Database, session: aiohttp.ClientSession) -> Fleet:
    return Fleet(slack, database, session)


async def team_of(clients: Clients, workspace: str) -> str:
    """Return where Slack says that the bot speaks."""
    _, installed = await clients.find(workspace)
    return str((await installed.client.auth_test())["team_id"])


async def test_everywhere_the_bot_speaks_with_the_token_of_that_workspace(fleet: Fleet) -> None:
    other = fleet.slack.add_team("Other")
    inside = fleet.slack.add_team("Inside", enterprise="E0ORG")
    installs = fleet.process()
    expected = [await fleet.install(installs, team) for team in (fleet.slack.team, other, inside)]

    names = [fleet.slack.team.id, other.id, inside.id]
    assert [await found(installs, name) for name in names] == expected
    assert [await team_of(installs, name) for name in names] == names
    assert expected[2].enterprise == "E0ORG"


async def test_what_is_installed_for_an_organisation_is_there_in_all_of_its_workspaces(
    fleet: Fleet,
) -> None:
    inside = fleet.slack.add_team("Inside", enterprise="E0ORG")
    installs = fleet.process()
    expected = await fleet.install(installs, inside, org_wide=True)

    assert await found(installs, f"E0ORG.{inside.id}") == expected
    assert await found(installs, "E0ORG.T0SISTER") == expected
    assert await team_of(installs, "E0ORG.T0SISTER") == "E0ORG"
    assert await found(installs, inside.id) is None
    assert await found(installs, f"E0OTHER.{inside.id}") is None


async def test_the_first_workspace_is_found_where_the_bot_is(fleet: Fleet) -> None:
    installs = fleet.process()
    ours = await fleet.install(installs, fleet.slack.team)
    here = fleet.slack.team.id

    assert await installs.find("E0ORG.T0A", "T0A", here, "T0B") == (here, ours)
    for nowhere_else in (("T0A", "T0B"), ()):
        with pytest.raises(RefusedError, match=NOT_INSTALLED):
            await installs.find(*nowhere_else)


async def test_where_the_bot_is_not_nothing_can_be_said(fleet: Fleet) -> None:
    installs = fleet.process()

    with pytest.raises(RefusedError, match=NOT_INSTALLED) as caught:
        await installs.find("T0NOWHERE")

    assert caught.value.permanent


async def test_another_apps_installations_are_not_ours(fleet: Fleet) -> None:
    await fleet.install(fleet.process(client_id="999.888"), fleet.slack.team)

    assert await found(fleet.process(), fleet.slack.team.id) is None


async def test_an_installation_counts_at_once_and_replaces_the_one_before(fleet: Fleet) -> None:
    installs, here = fleet.process(), fleet.slack.team.id
    before = await found(installs, here)
    first = await fleet.install(installs, fleet.slack.team)
    then = await found(installs, here)
    second = await fleet.install(installs, fleet.slack.team)

    assert (before, then) == (None, first)
    assert first.token != second.token
    assert await found(installs, here) == second
    assert (await installs.find(here))[1].client.token == second.token
    assert len(await rows(fleet.database)) == 1


async def test_where_slack_refuses_a_token_the_newest_one_is_taken(fleet: Fleet) -> None:
    team = fleet.slack.team
    channel = fleet.slack.add_channel("general")
    here, there = fleet.process(), fleet.process()
    await fleet.install(here, team)
    _, old = await there.find(team.id)
    assert team.grant is not None
    team.grant.revoked = "token_revoked"
    await fleet.install(here, team)

    posted = await Sender(there).post(Place("slack", team.id, channel.id), Draft(markdown="Hi."))

    assert [message.ts for message in fleet.slack.said(channel)] == [posted]
    assert await there.fresh(team.id, old) is not None
    assert await there.fresh(team.id, (await there.find(team.id))[1]) is None


async def test_other_processes_hear_of_an_installation_within_seconds(fleet: Fleet) -> None:
    one, two = fleet.process(), fleet.process()
    assert await found(two, fleet.slack.team.id) is None

    ours = await fleet.install(one, fleet.slack.team)
    fleet.monotonic.seconds += ABSENCE_SECONDS

    assert await found(two, fleet.slack.team.id) == ours


async def test_the_database_is_asked_once_a_minute(fleet: Fleet) -> None:
    installs = fleet.process()
    ours = await fleet.install(installs, fleet.slack.team)
    _, first = await installs.find(fleet.slack.team.id)
    async with fleet.database.transaction() as tx:
        await tx.execute(table.delete())

    fleet.monotonic.seconds += CACHE_SECONDS - 1
    _, kept = await installs.find(fleet.slack.team.id)
    fleet.monotonic.seconds += 1

    assert kept == ours
    assert kept is first
    assert await found(installs, fleet.slack.team.id) is None


async def test_only_so_many_workspaces_are_kept_in_mind(
    slack: FakeSlack, sqlite_url: str, session: aiohttp.ClientSession
) -> None:
    async with Database.open(DatabaseSettings(url=sqlite_url)) as database:
        installs = Fleet(slack, database, session).process()
        for number in range(MAX_CACHED_WORKSPACES + 10):
            await found(installs, f"T{number}")

    assert len(installs._cache) == MAX_CACHED_WORKSPACES


# --- removed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("org_wide", [False, True])
async def test_whoever_removes_the_bot_is_forgotten_by_every_process(
    fleet: Fleet, org_wide: bool
) -> None:
    team = fleet.slack.add_team("Inside", enterprise="E0ORG")
    place = f"E0ORG.{team.id}" if org_wide else team.id
    one, two = fleet.process(), fleet.process()
    stays = await fleet.install(one, fleet.slack.team)
    await fleet.install(one, team, org_wide=org_wide)
    await found(two, place)

    await fleet.slack.uninstall(team)
    await one.remove(place)
    await one.remove(place)

    assert await found(one, place) is None
    fleet.monotonic.seconds += CACHE_SECONDS
    assert await found(two, place) is None
    assert await found(one, fleet.slack.team.id) == stays


async def test_a_token_that_was_revoked_is_forgotten(fleet: Fleet) -> None:
    installs = fleet.process()
    await fleet.install(installs, fleet.slack.team)

    await fleet.slack.revoke_tokens(fleet.slack.team)
    await installs.remove(fleet.slack.team.id)

    assert await found(installs, fleet.slack.team.id) is None
    assert await rows(fleet.database) == []


async def test_news_that_come_after_the_next_installation_remove_nothing(fleet: Fleet) -> None:
    installs = fleet.process()
    await fleet.install(installs, fleet.slack.team)
    await fleet.slack.uninstall(fleet.slack.team)
    again = await fleet.install(installs, fleet.slack.team)

    await installs.remove(fleet.slack.team.id)

    assert await found(installs, fleet.slack.team.id) == again


async def test_nothing_is_removed_while_slack_cannot_say_whether_the_token_is_good(
    fleet: Fleet,
) -> None:
    installs = fleet.process()
    ours = await fleet.install(installs, fleet.slack.team)
    fleet.slack.fail("auth.test", error="fatal_error", times=None)

    with pytest.raises(DeliveryError) as caught:
        await installs.remove(fleet.slack.team.id)

    assert not caught.value.permanent
    assert await found(installs, fleet.slack.team.id) == ours


async def test_what_was_read_before_a_removal_is_not_believed_after_it(
    slack: FakeSlack, database_settings: DatabaseSettings, session: aiohttp.ClientSession
) -> None:
    async with SlowDatabase.open(database_settings) as database:
        fleet = Fleet(slack, database, session)
        installs = fleet.process()
        ours = await fleet.install(installs, slack.team)
        await slack.uninstall(slack.team)
        database.delay()
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            reading = group.create_task(found(installs, slack.team.id))
            assert database.was_read is not None
            await database.was_read.wait()
            await installs.remove(slack.team.id)
            database.on.set()

        assert reading.result() == ours
        assert await found(installs, slack.team.id) is None


# --- encrypted ----------------------------------------------------------------------------------


async def rows(database: Database) -> list[dict[str, object]]:
    async with database.snapshot() as tx:
        return [dict(row) for row in (await tx.execute(select(table))).mappings()]


async def test_no_token_can_be_read_in_the_database(fleet: Fleet, database_url: str) -> None:
    installs = fleet.process()
    token = (await fleet.install(installs, fleet.slack.team)).token
    secret = token.removeprefix("xoxb-")

    [row] = await rows(fleet.database)
    stored = str(row).encode()
    if fleet.database.is_sqlite:
        path = Path(make_url(database_url).database or "")
        stored += b"".join(file.read_bytes() for file in path.parent.glob("retinue.db*"))

    assert str(row["token"]).encode() in stored
    assert fleet.slack.team.id.encode() in stored
    assert token.encode() not in stored
    assert secret.encode() not in stored
    assert b"xoxb" not in stored


async def test_no_token_shows_where_an_installation_is_logged(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "bot")
    installs = fleet.process()

    ours = await fleet.install(installs, fleet.slack.team)

    assert "was installed" in caplog.text
    assert ours.token not in caplog.text + repr(ours)


async def test_with_another_key_the_bot_is_nowhere_and_the_log_says_what_to_do(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    here, key = fleet.slack.team.id, new_key()
    ours = await fleet.install(fleet.process(key=key), fleet.slack.team)
    changed = fleet.process(key=new_key())

    assert await found(changed, here) is None
    assert await found(changed, here) is None
    [record] = [
        each
        for each in caplog.records
        if each.name == module.__name__ and each.levelno >= logging.ERROR
    ]
    assert here in record.getMessage()
    assert "Put the old key back" in record.getMessage()
    assert "https://bot.example/slack/install" in record.getMessage()
    assert await found(fleet.process(key=key), here) == ours


async def test_with_another_key_the_bot_can_be_installed_anew_and_removed(fleet: Fleet) -> None:
    here = fleet.slack.team.id
    await fleet.install(fleet.process(), fleet.slack.team)
    changed = fleet.process(key=new_key())

    again = await fleet.install(changed, fleet.slack.team)
    then = await found(changed, here)
    await fleet.process().remove(here)

    assert then == again
    assert await rows(fleet.database) == []


# --- out of reach -------------------------------------------------------------------------------


@asynccontextmanager
async def cut_off(
    slack: FakeSlack, session: aiohttp.ClientSession
) -> AsyncIterator[EncryptedInstallationStore]:
    async with nowhere() as database:
        yield Fleet(slack, database, session).process()


async def test_while_the_database_is_out_of_reach_everything_is_for_later(
    slack: FakeSlack, session: aiohttp.ClientSession
) -> None:
    assert slack.team.grant is not None
    async with cut_off(slack, session) as installs:
        for attempt in (
            installs.find("T1"),
            installs.remove("T1"),
            installs.async_save(installation_of(slack.team.grant)),
        ):
            with pytest.raises(DeliveryError, match="database is unavailable") as caught:
                await attempt

            assert not caught.value.permanent
