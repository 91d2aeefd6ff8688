"""The Home tab: what a user finds there, and what they find when something goes wrong."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from bot.errors import BotError
from bot.platforms.base import Overview, RunCard
from bot.platforms.messaging.intake import NOT_YOU, TROUBLE
from bot.platforms.slack.actions import UNKNOWN
from bot.platforms.slack.blocks import MOST_AT_HOME
from bot.platforms.slack.people import NOT_THIS_WORKSPACE
from bot.values import Identity, Place, RunStatus
from tests.bot.platforms.slack.hearing import Here, connected, counter, listening, people
from tests.bot.platforms.slack.speaking import RUN
from tests.fakes.inbound import FakeInboundHandler
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.shapes import User
from tests.fakes.slack.surfaces import View

PUBLISH = "views.publish"


def run_of(owner: Identity, status: RunStatus = RunStatus.RUNNING, *, number: int = 0) -> RunCard:
    """Return a run of somebody; each number is another one."""
    return RunCard(
        run_id=RUN if not number else f"{number:08x}{RUN[8:]}",
        owner=owner,
        place=Place("slack"),
        label=f"run {number}" if number else "the news",
        agent="general",
        status=status,
        tokens=12345,
    )


def seen(
    *active: RunCard, ended: tuple[RunCard, ...] = (), usage: str = "", agents: tuple[str, ...] = ()
) -> Overview:
    """Return what somebody may see at a glance."""
    return Overview(active=active, ended=ended, usage=usage, agents=agents)


async def opened(here: Here, user: User | None = None) -> View:
    """Let somebody, Alice unless it is said, open their Home tab, and return it."""
    person = user or here.alice
    before = len(here.fake.called(PUBLISH))
    await here.fake.open_home(person)
    await here.fake.until(lambda: len(here.fake.called(PUBLISH)) > before, "a Home tab")
    await here.fake.until(lambda: here.fake.home(person), "a Home tab that Slack took")
    view = here.fake.home(person)
    assert view is not None
    return view


class Failing(FakeInboundHandler):
    """Cannot tell what anybody may see."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def overview(self, user: Identity) -> Overview:
        raise self.error


@pytest.fixture
async def here(slack: FakeSlack, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Here]:
    caplog.set_level(logging.INFO, logger="bot")
    async with listening(slack) as opened:
        yield opened


async def test_a_user_finds_their_runs_their_usage_and_their_agents(here: Here) -> None:
    alice = here.who(here.alice)
    here.inbound.overviews[alice] = seen(
        run_of(alice),
        ended=(run_of(alice, RunStatus.COMPLETED, number=2),),
        usage="**2** of 5 runs",
        agents=("general – does *anything*", "explore"),
    )

    view = await opened(here)

    read = view.readable()
    order = [
        "My runs",
        "the news",
        "Recently finished",
        "run 2",
        "*2* of 5 runs",
        "*Agents*",
        "explore",
    ]
    places = [read.index(each) for each in order]
    assert places == sorted(places)
    assert [(each.label, each.value[:8]) for each in view.buttons(here.alice)] == [
        ("Stop", "1a2b3c4d"),
        ("Log", "1a2b3c4d"),
        ("Send", "1a2b3c4d"),
        ("Log", "00000002"),
    ]


async def test_who_has_no_runs_is_told_so(here: Here) -> None:
    read = (await opened(here)).readable()

    assert "None is going on." in read
    assert "Recently finished" not in read
    assert "Agents" not in read


async def test_each_user_sees_their_own_only(here: Here) -> None:
    alice = here.who(here.alice)
    here.inbound.overviews[alice] = seen(run_of(alice))

    mine, theirs = await opened(here), await opened(here, here.bob)

    assert "the news" in mine.readable()
    assert "the news" not in str(theirs.content)


async def test_it_is_shown_anew_whenever_it_is_opened(here: Here) -> None:
    alice = here.who(here.alice)
    view = await opened(here)
    here.inbound.overviews[alice] = seen(run_of(alice))

    again = await opened(here)

    assert again is view
    assert (view.versions, "the news" in view.readable()) == (2, True)


async def test_the_messages_tab_shows_nothing_of_it(here: Here) -> None:
    await here.fake.open_home(here.alice, tab="messages")
    await opened(here, here.bob)

    assert here.fake.home(here.alice) is None


@pytest.mark.parametrize(("count", "more"), [(15, ""), (16, "1 more:"), (120, "105 more:")])
async def test_more_runs_than_slack_takes_are_counted(here: Here, count: int, more: str) -> None:
    alice = here.who(here.alice)
    here.inbound.overviews[alice] = seen(
        *(run_of(alice, number=n) for n in range(1, count + 1)),
        ended=tuple(run_of(alice, RunStatus.FAILED, number=n) for n in range(1, count + 1)),
        usage="x\n" * 30_000,
        agents=tuple(f"agent {n}" for n in range(3_000)),
    )

    view = await opened(here)

    stops = [each.value for each in view.buttons() if each.label == "Stop"]
    assert len(stops) == MOST_AT_HOME
    assert view.readable().count("names them all") == (2 if more else 0)
    assert more in view.readable()
    assert len(view.blocks) <= 100


async def test_nothing_in_it_pings_or_hides_a_link(here: Here) -> None:
    alice = here.who(here.alice)
    evil = "<!channel> <@U00000001> [bank](https://evil.example)"
    here.inbound.overviews[alice] = seen(run_of(alice), usage=evil, agents=(evil,))

    view = await opened(here)

    assert "<!channel>" not in str(view.content)
    assert "<@U" not in str(view.content)
    assert "&lt;!channel&gt;" in str(view.content)


# --- who may --------------------------------------------------------------------------------------


async def test_who_may_not_reads_why(slack: FakeSlack) -> None:
    _, _, bob = people(slack)
    async with listening(slack, users=(bob.id,)) as here:
        here.inbound.overviews[here.who(here.alice)] = seen(run_of(here.who(here.alice)))

        view = await opened(here)

        assert (view.readable(), view.buttons()) == (NOT_YOU, [])


async def test_in_a_workspace_that_is_not_served_it_says_so(slack: FakeSlack) -> None:
    async with listening(slack, workspaces=("T99999999",)) as here:
        assert (await opened(here)).readable() == NOT_THIS_WORKSPACE


async def test_where_direct_messages_are_off_the_tab_is_there_all_the_same(
    slack: FakeSlack,
) -> None:
    async with listening(slack, direct_messages=False, channels=("C99999999",)) as here:
        assert "My runs" in (await opened(here)).readable()


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason"),
    [(BotError("My memory is away."), "My memory is away."), (ValueError("a bug"), TROUBLE)],
)
async def test_what_cannot_be_told_is_said_there(
    slack: FakeSlack, error: Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(slack, Failing(error)) as here:
        view = await opened(here)

        assert view.readable() == UNKNOWN.format(reason=reason)
        assert view.buttons() == []
        assert ("a bug" in caplog.text) == (reason == TROUBLE)


@pytest.mark.parametrize("error", ["not_enabled", "hash_conflict", "internal_error"])
async def test_when_slack_does_not_take_it_that_is_logged_and_the_next_time_is_another(
    here: Here, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    here.fake.fail(PUBLISH, error=error)

    told = await here.fake.open_home(here.alice)
    await here.fake.until(lambda: "is not shown" in caplog.text, "a line in the log")

    assert told is not None
    assert (told.acked, len(told.attempts)) == (True, 1)
    assert "My runs" in (await opened(here)).readable()


async def test_a_slow_slack_does_not_keep_the_event_waiting(slack: FakeSlack) -> None:
    go_on = asyncio.Event()
    slack.fail(PUBLISH, hold=go_on)
    async with counter(slack, ack_seconds=0.05) as at, connected(at):
        told = await slack.open_home(at.alice)
        assert told is not None
        acked, before = told.acked, slack.home(at.alice)
        go_on.set()
        await slack.until(lambda: slack.home(at.alice), "a Home tab")

        assert (acked, before) == (True, None)


async def test_the_same_event_again_shows_it_once(here: Here) -> None:
    told = await here.fake.open_home(here.alice)
    assert told is not None
    await here.fake.until(lambda: here.fake.home(here.alice), "a Home tab")
    await here.fake.redeliver(told)
    await opened(here, here.bob)

    assert len(here.fake.called(PUBLISH)) == 2
