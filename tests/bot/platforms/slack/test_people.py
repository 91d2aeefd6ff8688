"""Who somebody on Slack is, where they are, and whether they may talk with the bot there."""

from typing import Any

import pytest

from bot.platforms.messaging.intake import NOT_YOU, AccessRefusal
from bot.platforms.slack.people import (
    NO_DIRECT_MESSAGES,
    NOT_THIS_CHANNEL,
    NOT_THIS_WORKSPACE,
    SlackAccessPolicy,
    SlackUser,
    interacting_user_of,
    speaker_of,
    workspaces_of,
)
from bot.platforms.slack.settings import SlackSettings
from bot.values import Identity, Json, Place

ALICE = SlackUser(account="U11", home="T11", workspace="T11")
#: Of an organisation, where the bot was installed for one of its workspaces, and for all.
OLGA = SlackUser(account="U22", home="E11", workspace="T11")
OSKAR = SlackUser(account="U22", home="E11", workspace="E11.T11")
#: Of another company, in a channel that is shared.
CAROL = SlackUser(account="U33", home="T99", workspace="T11", stranger=True)


def refused(
    person: SlackUser = ALICE, channel: str = "C11", **settings: Any
) -> AccessRefusal | None:
    return SlackAccessPolicy(SlackSettings(**settings)).refusal(person, channel)


def speaker(
    *, team: str = "", shared: bool = False, enterprise: str = "", workspace: str = "T11"
) -> SlackUser:
    event: Json = {"type": "message", "user": "U11"} | ({"user_team": team} if team else {})
    return speaker_of(event, {"is_ext_shared_channel": shared}, workspace, enterprise)


def visitor(body: Json, *, enterprise: str = "", workspace: str = "T11") -> SlackUser:
    return interacting_user_of(body, workspace, enterprise)


# --- who ------------------------------------------------------------------------------------------


def test_somebody_is_known_by_platform_workspace_and_account() -> None:
    assert ALICE.identity == Identity("slack", "T11", "U11")
    assert CAROL.identity == Identity("slack", "T99", "U33")


def test_a_place_names_the_workspace_where_the_bot_is_also_for_strangers() -> None:
    assert CAROL.place("C11", "1.2", "3.4") == Place("slack", "T11", "C11", "1.2", "3.4")
    assert OSKAR.place("C11") == Place("slack", "E11.T11", "C11", "", "")


def test_whoever_speaks_in_an_ordinary_channel_is_of_the_workspace_whatever_is_said_of_them() -> (
    None
):
    assert speaker().identity == Identity("slack", "T11", "U11")
    assert speaker(team="T99").identity == Identity("slack", "T11", "U11")


def test_in_an_organisation_somebody_is_the_same_user_in_all_of_its_workspaces() -> None:
    people = {
        speaker(enterprise="E11").identity,
        speaker(enterprise="E11", workspace="E11.T11").identity,
        speaker(enterprise="E11", workspace="E11.T22").identity,
        speaker(enterprise="E11", team="E11", shared=True).identity,
        speaker(enterprise="E11", team="T11", shared=True).identity,
        speaker(enterprise="E11", team="T11", shared=True, workspace="E11.T11").identity,
    }

    assert people == {Identity("slack", "E11", "U11")}


def test_a_stranger_in_a_shared_channel_is_somebody_of_their_own_workspace() -> None:
    assert speaker(team="T99", shared=True).identity == Identity("slack", "T99", "U11")
    assert speaker(team="T99", shared=True, enterprise="E11").identity.workspace == "T99"


@pytest.mark.parametrize("field", ["user_team", "source_team", "team"])
def test_a_stranger_is_told_by_whichever_field_there_is(field: str) -> None:
    event: Json = {"type": "app_mention", "user": "U33", field: "T99"}
    body = {"is_ext_shared_channel": True}

    assert speaker_of(event, body, "T11", "") == CAROL


def test_where_slack_tells_both_it_is_the_users_own_team_that_counts() -> None:
    # As Slack really tells of a mention: `team` is where the bot is installed.
    event: Json = {"user": "U33", "team": "T11", "user_team": "T99", "source_team": "T99"}

    assert speaker_of(event, {"is_ext_shared_channel": True}, "T11", "") == CAROL


def test_somebody_of_the_workspace_is_no_stranger_in_a_shared_channel() -> None:
    assert speaker(team="T11", shared=True).identity == ALICE.identity
    assert speaker(shared=True).identity == ALICE.identity


@pytest.mark.parametrize(
    ("team", "enterprise"), [("T11", ""), ("T11", "E11"), ("T99", ""), ("T99", "E11")]
)
def test_who_clicks_is_the_same_user_as_who_speaks(team: str, enterprise: str) -> None:
    click: Json = {"user": {"id": "U11", "team_id": team}, "team": {"id": "T11"}}

    assert visitor(click, enterprise=enterprise) == speaker(
        team=team, shared=True, enterprise=enterprise
    )


def test_a_click_of_a_sibling_workspace_is_one_of_the_organisation() -> None:
    click: Json = {"user": {"id": "U11", "team_id": "T22"}, "enterprise": {"id": "E11"}}

    assert visitor(click, enterprise="E11").home == "E11"
    assert visitor(click, enterprise="E22").home == "T22"
    assert visitor(click).home == "T22"


def test_without_an_organisation_nobody_is_a_sibling() -> None:
    click: Json = {"user": {"id": "U11", "team_id": "T99"}, "enterprise": None}

    assert visitor(click).home == "T99"


def test_who_types_a_slash_command_is_known_by_its_fields() -> None:
    typed: Json = {"user_id": "U11", "team_id": "T11", "command": "/retinue"}

    assert visitor(typed) == ALICE
    assert visitor(typed | {"enterprise_id": "E11"}, enterprise="E11").home == "E11"


@pytest.mark.parametrize("body", [{}, {"user": None}, {"user": "U11"}, {"user": {"id": None}}])
def test_what_slack_leaves_out_of_a_click_breaks_nothing(body: Json) -> None:
    assert visitor(body).home == "T11"


# --- where ----------------------------------------------------------------------------------------


def test_the_workspace_that_authorised_the_bot_comes_first() -> None:
    # As Slack really tells of what a stranger said in a shared channel.
    body: Json = {
        "team_id": "T99",
        "enterprise_id": "E99",
        "context_team_id": "T88",
        "authorizations": [{"team_id": "T11", "enterprise_id": None}],
    }

    assert list(workspaces_of(body)) == ["T11", "T88", "T99"]


def test_an_installation_for_all_of_an_organisation_is_looked_for_along_with_it() -> None:
    event: Json = {
        "team_id": "T11",
        "authorizations": [{"enterprise_id": "E11", "is_enterprise_install": True}],
    }
    typed: Json = {"team_id": "T11", "enterprise_id": "E11", "is_enterprise_install": "true"}
    clicked: Json = {
        "team": None,
        "enterprise": {"id": "E11"},
        "is_enterprise_install": True,
        "user": {"id": "U1", "team_id": "T11"},
    }

    for body in (event, typed, clicked):
        assert list(workspaces_of(body)) == ["E11.T11", "T11"]


def test_an_organisation_counts_only_where_the_bot_was_installed_for_all_of_it() -> None:
    typed: Json = {"team_id": "T11", "enterprise_id": "E11", "is_enterprise_install": "false"}

    assert list(workspaces_of(typed)) == ["T11"]


def test_a_form_and_a_message_tell_for_which_workspace_they_were_made() -> None:
    form: Json = {"view": {"app_installed_team_id": "T11"}, "team": {"id": "T99"}}
    click: Json = {"message": {"team": "T11"}, "team": {"id": "T99"}, "user": {"team_id": "T99"}}

    assert list(workspaces_of(form)) == ["T11", "T99"]
    assert list(workspaces_of(click)) == ["T11", "T99"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"authorizations": None},
        {"authorizations": []},
        {"authorizations": ["T11"]},
        {"team": "T11", "user": "U1", "view": None},
        {"team_id": "E11"},
        {"team_id": None, "team": {"id": None}},
    ],
)
def test_from_what_names_no_workspace_none_is_made_up(body: Json) -> None:
    assert list(workspaces_of(body)) == []


# --- who may --------------------------------------------------------------------------------------


@pytest.mark.parametrize("person", [ALICE, OLGA, OSKAR, CAROL])
@pytest.mark.parametrize("channel", ["C11", "G1", "D1", ""])
def test_everybody_may_everywhere_unless_something_is_set(person: SlackUser, channel: str) -> None:
    assert refused(person, channel) is None


@pytest.mark.parametrize("channel", ["C11", "D1", ""])
def test_other_workspaces_are_passed_over(channel: str) -> None:
    silent = AccessRefusal(NOT_THIS_WORKSPACE, silent=True)

    assert refused(channel=channel, workspaces=("T11",)) is None
    assert refused(channel=channel, workspaces=("T22", "T11")) is None
    assert refused(channel=channel, workspaces=("T22",)) == silent


def test_an_organisation_stands_for_all_of_its_workspaces() -> None:
    assert refused(OLGA, workspaces=("E11",)) is None
    assert refused(OSKAR, workspaces=("E11",)) is None
    assert refused(OSKAR, workspaces=("T11",)) is None
    assert refused(OSKAR, workspaces=("E22",)) == AccessRefusal(NOT_THIS_WORKSPACE, silent=True)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"workspaces": []}, AccessRefusal(NOT_THIS_WORKSPACE, silent=True)),
        ({"channels": []}, AccessRefusal(NOT_THIS_CHANNEL, silent=True)),
        ({"users": []}, AccessRefusal(NOT_YOU)),
    ],
)
def test_an_empty_list_admits_nobody(settings: dict[str, Any], refusal: AccessRefusal) -> None:
    assert refused(**settings) == refusal


def test_other_channels_are_passed_over_and_direct_messages_not_affected() -> None:
    assert refused(channels=("C11",)) is None
    assert refused(channels=("C22",)) == AccessRefusal(NOT_THIS_CHANNEL, silent=True)
    assert refused(channel="G1", channels=("C22",)) == AccessRefusal(NOT_THIS_CHANNEL, silent=True)
    assert refused(channel="D1", channels=("C22",)) is None
    assert refused(channel="", channels=("C22",)) is None


def test_direct_messages_can_be_switched_off_which_is_said() -> None:
    assert refused(channel="D1", direct_messages=False) == AccessRefusal(NO_DIRECT_MESSAGES)
    assert refused(channel="C11", direct_messages=False) is None
    assert refused(channel="G1", direct_messages=False) is None
    assert refused(channel="", direct_messages=False) is None


@pytest.mark.parametrize("user", ["U11", "T11:U11"])
def test_one_of_the_people_may(user: str) -> None:
    assert refused(users=("U99", user)) is None


@pytest.mark.parametrize("user", ["U12", "T22:U11", "E11:U11"])
@pytest.mark.parametrize("channel", ["C11", "D1", ""])
def test_nobody_else_may_and_is_told_so(user: str, channel: str) -> None:
    assert refused(channel=channel, users=(user,)) == AccessRefusal(NOT_YOU)


def test_people_of_an_organisation_are_named_by_it_or_by_the_workspace() -> None:
    for person in (OLGA, OSKAR):
        assert refused(person, users=("E11:U22",)) is None
        assert refused(person, users=("T11:U22",)) is None
        assert refused(person, users=("T22:U22",)) == AccessRefusal(NOT_YOU)


def test_strangers_are_named_by_their_own_workspace_and_by_nothing_else() -> None:
    assert refused(CAROL, users=("T99:U33",)) is None
    for name in ("T88:U33", "T11:U33", "U33"):
        assert refused(CAROL, users=(name,)) == AccessRefusal(NOT_YOU)


def test_strangers_are_where_the_bot_is_and_bring_no_workspace_with_them() -> None:
    assert refused(CAROL, workspaces=("T11",)) is None
    assert refused(CAROL, workspaces=("T99",)) == AccessRefusal(NOT_THIS_WORKSPACE, silent=True)


def test_with_many_workspaces_an_id_without_one_lets_nobody_in() -> None:
    # Settings like these are refused when they are read, and let nobody in even so.
    many = SlackSettings().model_copy(update={"client_id": "1.2", "users": ("U11",)})
    named = many.model_copy(update={"users": ("T11:U11",)})

    assert SlackAccessPolicy(many).refusal(ALICE, "C11") == AccessRefusal(NOT_YOU)
    assert SlackAccessPolicy(named).refusal(ALICE, "C11") is None


def test_a_place_that_is_not_served_is_passed_over_even_for_those_who_may_not_anyway() -> None:
    refusal = refused(users=("U12",), channels=("C22",), workspaces=("T22",))

    assert refusal is not None
    assert refusal.silent


def test_an_access_policy_follows_its_settings() -> None:
    policy = SlackAccessPolicy(SlackSettings(users=("U12",)))

    assert policy.refusal(ALICE, "C11") == AccessRefusal(NOT_YOU)
