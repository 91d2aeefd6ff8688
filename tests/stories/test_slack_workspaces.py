"""One bot in many Slack workspaces: installed, kept apart, removed; and people from elsewhere."""

import base64

import pytest
from pydantic import SecretStr

from bot.platforms.slack.settings import SlackSettings
from bot.values import Json
from db import tables
from tests.fakes.anthropic_server import Reply
from tests.fakes.patience import eventually
from tests.fakes.ports import free_port
from tests.fakes.slack.shapes import Team
from tests.stories.on_slack import Office, Scene, Way, new_office, on_slack
from tests.stories.stage import Play, newest_run
from tests.stories.test_chat_runs import digging
from tests.stories.test_slack_runs import spawned
from tests.stories.test_slack_trouble import item_of


@pytest.fixture
def many(database_url: str) -> Way:
    """Workspaces install the bot by HTTP only."""
    return Way("http", database_url)


def installable(office: Office, port: int, **more: object) -> Json:
    """Return the settings of a bot that workspaces install themselves."""
    return {
        "bot_token": None,
        "app_token": None,
        "port": port,
        "client_id": office.slack.client_id,
        "client_secret": SecretStr(office.slack.client_secret),
        "encryption_key": SecretStr(base64.urlsafe_b64encode(bytes(range(32))).decode()),
        "public_url": f"http://127.0.0.1:{port}",
        **more,
    }


async def installed(it: Scene, port: int, team: Team, *, org_wide: bool = False) -> str:
    """Install the bot in a workspace, by a browser; return the page that is shown at the end."""
    page = f"http://127.0.0.1:{port}/slack/install"
    return await it.slack.install(page, team, org_wide=org_wide)


async def test_two_workspaces_install_the_bot_and_know_nothing_of_each_other(many: Way) -> None:
    play = digging()
    play.main.append(Reply(text="Hello, Beta."))
    async with new_office() as office:
        port = free_port()
        beta = office.slack.add_team("Beta")
        async with on_slack(many, office, play, settings=installable(office, port)) as it:
            office.slack.team.grant = None
            pages = [await installed(it, port, team) for team in (office.slack.team, beta)]
            room = it.slack.add_channel("barn", team=beta)
            carol = it.slack.add_user("carol", team=beta)
            asked, card = await spawned(it)
            greeting = await it.slack.say(carol, room, "Hi!", mention=True)
            await it.reads(greeting, "Hello, Beta.")
            listed = await (await it.slack.slash(carol, room, "/subagents", "list")).done()
            run = await newest_run(it.bot, "Dig")
            stop = await it.slack.slash(carol, room, "/subagents", f"stop {run.id}")
            await stop.done()
            it.gate.opened.set()
            await it.reads(asked, "Dug.")

            assert all("installed" in page.lower() for page in pages)
            assert "digging" not in listed.text()
            assert "You have no run" in stop.text()
            tokens = {call.token for call in it.slack.calls if call.team == beta.id}
            assert tokens
            assert not tokens & {c.token for c in it.slack.calls if c.team == office.slack.team.id}
            assert card.channel is office.channel


async def test_an_organisation_installs_it_for_all_of_its_workspaces_at_once(many: Way) -> None:
    play = Play(main=[Reply(text="Hello, north."), Reply(text="Hello, south."), Reply(text="Dug?")])
    async with new_office() as office:
        port = free_port()
        north = office.slack.add_team("North", enterprise="E0ORG0001")
        south = office.slack.add_team("South", enterprise="E0ORG0001")
        async with on_slack(many, office, play, settings=installable(office, port)) as it:
            page = await installed(it, port, north, org_wide=True)
            for team, words in ((north, "Hello, north."), (south, "Hello, south.")):
                room = it.slack.add_channel(f"{team.name}-barn", team=team)
                dora = it.slack.add_user(f"dora-{team.name}", team=team)
                asked = await it.slack.say(dora, room, "Hi!", mention=True)
                await it.reads(asked, words)
                usage = await (await it.slack.slash(dora, room, "/retinue", "usage")).done()
                assert "Your usage" in usage.text()
                await it.slack.open_home(dora)
                home = it.slack.home(dora)
                assert home is not None
                assert "Your usage" in str(home.blocks)

            assert "installed" in page.lower()


async def test_a_workspace_that_removes_the_bot_is_forgotten_and_may_come_back(many: Way) -> None:
    play = digging()
    async with new_office() as office:
        port, team = free_port(), office.slack.team
        async with on_slack(many, office, play, settings=installable(office, port)) as it:
            team.grant = None
            await installed(it, port, team)
            asked, _ = await spawned(it)
            await it.slack.uninstall(team)
            it.gate.opened.set()

            async def kept() -> bool:
                found = await item_of(it, "Dig")
                return found is not None and found.status == "blocked"

            await eventually(kept, "the result to be kept")
            assert await rows(it) == 0
            await installed(it, port, team)
            words = "retry last"
            again = await it.slack.slash(office.alice, office.channel, "/subagents", words)
            await again.done()
            await it.bot.announcements.sweep()
            await it.reads(asked, "Dug.")


async def test_a_workspace_that_is_not_allowed_is_not_installed_and_its_token_given_back(
    many: Way,
) -> None:
    async with new_office() as office:
        port = free_port()
        beta = office.slack.add_team("Beta")
        settings = installable(office, port, workspaces=(office.slack.team.id,))
        async with on_slack(many, office, Play(), settings=settings) as it:
            await installed(it, port, beta)

            assert await rows(it) == 0
            assert it.slack.called("auth.revoke")


async def rows(it: Scene) -> int:
    """Return how many installations are stored."""
    async with it.bot.database.snapshot() as tx:
        return len((await tx.execute(tables.slack_installs.select())).all())


async def test_a_stranger_in_a_shared_channel_is_somebody_else_and_has_their_own_runs(
    way: Way,
) -> None:
    play = digging()
    async with new_office() as office:
        beta = office.slack.add_team("Beta")
        carol = office.slack.add_user("carol", team=beta)
        shared = office.slack.add_channel(
            "shared", members=[office.alice, office.bob, carol], shared_with=[beta]
        )
        office.channel = shared
        async with on_slack(way, office, play) as it:
            asked, card = await spawned(it)
            play.main.append(Reply(text="Hello, stranger."))
            await it.slack.say(carol, shared, "What do I have?", thread=asked, mention=True)
            await it.reads(asked, "Hello, stranger.")
            refused = await it.slack.click(carol, card, "Stop", force=True)
            await refused.done()
            await it.slack.say(carol, shared, "!subagents list", thread=asked)
            listed = await it.whispered(carol, "No runs are going on")
            it.gate.opened.set()
            await it.reads(asked, "Dug.")

            assert "digging" not in refused.text()
            assert "digging" not in listed.readable()
            assert "Dig, please" not in str(play.asked[-1]["messages"])


async def test_a_stranger_stops_their_own_run_by_button_and_by_words(way: Way) -> None:
    play = digging()
    async with new_office() as office:
        beta = office.slack.add_team("Beta")
        carol = office.slack.add_user("carol", team=beta)
        office.channel = office.slack.add_channel(
            "shared", members=[office.alice, carol], shared_with=[beta]
        )
        office.alice = carol
        async with on_slack(way, office, play) as it:
            asked, card = await spawned(it)
            answer = await it.slack.click(carol, card, "Stop")
            await answer.done()
            await it.card(asked, "digging", "stopped")

            assert "Stopping" in answer.text()


async def test_a_signing_secret_that_was_changed_counts_at_once(sqlite_url: str) -> None:
    play = Play(main=[Reply(text="Under the new one.")])
    way = Way("http", sqlite_url)
    async with new_office() as office:
        secrets = [office.slack.signing_secret]

        def current(given: SlackSettings) -> SlackSettings:
            return given.model_copy(update={"signing_secret": SecretStr(secrets[-1])})

        async with on_slack(way, office, play, current=current) as it:
            private = it.slack.dm(office.alice)
            secrets.append("0f742231b10e8888abcd99yyyzzz85a5")
            it.slack.deliveries.immediate_retry = False
            old = await it.slack.say(office.alice, private, "Under the old one.")
            assert [each.attempts[0].status for each in old.events] == [401]
            it.slack.webhook.secret = secrets[-1]
            new = await it.slack.say(office.alice, private, "And now?")
            await it.reads(new, "Under the new one.")

            assert len(play.asked) == 1
