"""What people on Slack are called."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bot.platforms.slack import people
from bot.platforms.slack.people import CACHE_SECONDS, LONGEST_NAME, RETRY_SECONDS, Names, SlackUser
from bot.values import Json
from tests.bot.platforms.slack.hearing import Counter, counter
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.shapes import User


class Watch:
    """A clock of seconds that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def at(slack: FakeSlack) -> AsyncIterator[Counter]:
    async with counter(slack) as opened:
        yield opened


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def known(at: Counter, watch: Watch) -> Names:
    return Names(at.receiver.outlet.sender, monotonic=watch)


def person(user: User, workspace: str = "") -> SlackUser:
    team = user.team.id
    return SlackUser(account=user.id, home=team, workspace=workspace or team)


def asked(at: Counter) -> list[str]:
    """Return for whose names Slack was asked."""
    return [call.args["user"] for call in at.fake.called("users.info")]


def answers(at: Counter, user: Json | None) -> None:
    """Let Slack tell something else of people."""
    at.fake.api.methods["users.info"] = lambda _: {"user": user}


async def test_a_name_is_asked_for_once_and_again_after_an_hour(
    at: Counter, known: Names, watch: Watch
) -> None:
    alice = person(at.alice)
    assert await known.of(alice) == "alice"
    at.alice.name = "alicia"
    watch.now += CACHE_SECONDS - 1
    assert await known.of(alice) == "alice"
    watch.now += 1
    assert await known.of(alice) == "alicia"

    assert asked(at) == [at.alice.id] * 2


async def test_everybody_has_a_name_of_their_own(at: Counter, known: Names) -> None:
    assert [await known.of(person(each)) for each in (at.alice, at.bob)] == ["alice", "bob"]
    assert asked(at) == [at.alice.id, at.bob.id]


async def test_the_same_account_in_another_workspace_is_asked_for_there(
    at: Counter, known: Names
) -> None:
    await known.of(person(at.alice))
    await known.of(person(at.alice, workspace="E11.T22"))

    assert len(asked(at)) == 2


@pytest.mark.parametrize("error", ["user_not_found", "missing_scope", "invalid_auth"])
async def test_whoever_has_no_name_is_called_by_their_account_and_asked_for_later(
    at: Counter, known: Names, watch: Watch, error: str
) -> None:
    alice = person(at.alice)
    at.fake.fail("users.info", error=error, times=1)
    assert await known.of(alice) == at.alice.id
    watch.now += RETRY_SECONDS - 1
    assert await known.of(alice) == at.alice.id
    assert len(asked(at)) == 1
    watch.now += 1

    assert await known.of(alice) == "alice"


async def test_a_name_that_was_known_outlives_slack_not_telling_it(
    at: Counter, known: Names, watch: Watch
) -> None:
    alice = person(at.alice)
    await known.of(alice)
    watch.now += CACHE_SECONDS
    at.fake.fail("users.info", refuse=True, times=None)

    assert await known.of(alice) == "alice"
    count = len(asked(at))
    assert await known.of(alice) == "alice"
    assert len(asked(at)) == count


async def test_a_name_is_not_waited_for_for_long(
    at: Counter, known: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()
    at.fake.fail("users.info", hold=go_on)
    monkeypatch.setattr(people, "ASK_SECONDS", 0.3)

    async with asyncio.timeout(8):
        assert await known.of(person(at.alice)) == at.alice.id
    go_on.set()


async def test_a_name_is_not_waited_for_when_slack_asks_for_patience(
    at: Counter, known: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.fake.fail("users.info", status=429, retry_after=9)
    monkeypatch.setattr(people, "ASK_SECONDS", 0.3)

    async with asyncio.timeout(8):
        assert await known.of(person(at.alice)) == at.alice.id


async def test_an_answer_that_is_no_json_is_no_name(at: Counter, known: Names) -> None:
    at.fake.fail("users.info", body="<html>Sorry</html>", times=None)

    assert await known.of(person(at.alice)) == at.alice.id


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ({"profile": {"display_name": "Al"}, "real_name": "Alice A.", "name": "alice"}, "Al"),
        ({"profile": {"display_name": ""}, "real_name": "Alice A.", "name": "alice"}, "Alice A."),
        ({"profile": {"display_name": " "}, "real_name": "Alice A."}, "Alice A."),
        ({"profile": {}, "name": "alice"}, "alice"),
        ({"profile": None, "real_name": None, "name": "alice"}, "alice"),
        ({"profile": {"display_name": "two\nlines "}}, "two lines"),
        ({"profile": {"display_name": "x" * 500}}, "x" * (LONGEST_NAME - 1) + "…"),
    ],
)
async def test_people_are_called_what_they_chose_on_one_short_line(
    at: Counter, known: Names, user: Json, name: str
) -> None:
    answers(at, user)

    assert await known.of(person(at.alice)) == name


@pytest.mark.parametrize("user", [None, {}, {"profile": {"display_name": " \n"}}])
async def test_an_empty_name_is_none(at: Counter, known: Names, user: Json | None) -> None:
    answers(at, user)

    assert await known.of(person(at.alice)) == at.alice.id


async def test_what_is_remembered_longest_ago_is_forgotten_first(
    at: Counter, known: Names, watch: Watch
) -> None:
    newest, *others = [
        SlackUser(account=f"U{number}", home="T11", workspace=at.fake.team.id)
        for number in range(people.MAX_CACHED_NAMES + 1)
    ]
    for each in others:
        known._names[each.workspace, each.account] = ("somebody", watch.now + 1)
    oldest, second, third, *_ = others
    known._names[oldest.workspace, oldest.account] = ("somebody", watch.now)

    for each in (oldest, newest):
        await known.of(each)
    assert asked(at) == [oldest.account, newest.account]
    assert len(known._names) == people.MAX_CACHED_NAMES
    for each in (oldest, third, newest, second):
        await known.of(each)

    assert asked(at)[2:] == [second.account]
