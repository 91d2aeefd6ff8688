"""Clients of Slack's Web API: whose token they have, and what they try again by themselves."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.platforms.slack.clients import (
    LONGEST_WAIT_SECONDS,
    OneClient,
    new_client,
    open_session,
    team_of,
)
from bot.platforms.slack.problems import NOT_INSTALLED, ONCE, RefusedError
from tests.bot.platforms.slack.hearing import installed_in
from tests.fakes.slack.server import FakeSlack


@pytest.fixture
async def client(slack: FakeSlack) -> AsyncIterator[AsyncWebClient]:
    async with open_session() as session:
        yield new_client(slack.bot_token, api_url=slack.api_url, session=session)


async def test_the_only_workspace_is_the_one_whatever_a_payload_names(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    installed = installed_in(slack, client)
    one = OneClient(installed, "T11")

    assert await one.find("T99", "T11") == ("T11", installed)
    assert await one.find() == ("T11", installed)


async def test_a_token_for_all_of_an_organisation_is_good_where_a_payload_came_from(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    installed = installed_in(slack, client)
    one = OneClient(installed)

    assert await one.find("E11.T22", "T22") == ("E11.T22", installed)
    with pytest.raises(RefusedError, match=NOT_INSTALLED):
        await one.find()


def test_a_workspace_is_known_by_its_team_also_within_an_organisation() -> None:
    assert team_of("T11") == team_of("E11.T11") == "T11"


def test_a_token_is_not_shown_where_objects_are_printed(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    assert slack.bot_token not in repr(installed_in(slack, client))


# --- what is tried again --------------------------------------------------------------------------


async def test_what_does_no_harm_twice_is_asked_again_when_slack_is_out_of_order(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    slack.fail("auth.test", status=500)

    assert (await client.auth_test())["ok"]
    assert len(slack.called("auth.test")) == 2


async def test_what_does_no_harm_twice_is_asked_again_when_the_connection_broke(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    slack.fail("auth.test", cut=True)

    assert (await client.auth_test())["ok"]
    assert len(slack.called("auth.test")) == 2


@pytest.mark.parametrize("method", sorted(ONCE))
async def test_what_would_be_said_twice_is_not_said_again(
    slack: FakeSlack, client: AsyncWebClient, method: str
) -> None:
    slack.fail(method, status=500)
    with pytest.raises(SlackApiError):
        await client.api_call(method)
    slack.heal()
    slack.fail(method, refuse=True)
    with pytest.raises(aiohttp.ClientError):
        await client.api_call(method)

    assert len(slack.called(method)) == 2


async def test_slack_is_waited_for_as_long_as_it_says_unless_that_is_too_long(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    slack.fail("auth.test", status=429, retry_after=0, times=3)
    assert (await client.auth_test())["ok"]
    assert len(slack.called("auth.test")) == 4
    slack.fail("team.info", status=429, retry_after=LONGEST_WAIT_SECONDS + 1)
    with pytest.raises(SlackApiError):
        await client.team_info()

    assert len(slack.called("team.info")) == 1


async def test_a_refusal_is_not_asked_for_again(slack: FakeSlack, client: AsyncWebClient) -> None:
    slack.fail("auth.test", error="invalid_auth")

    with pytest.raises(SlackApiError):
        await client.auth_test()

    assert len(slack.called("auth.test")) == 1
