"""What applies to a user in a place is shown with the source of each value."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bot.__main__ import build
from bot.config.loading import load
from bot.conversations.access import place_named
from bot.errors import BadRequestError
from bot.settings_shown import shown
from bot.values import Place

FILE = """\
permissions:
  rules: {"mail": ask}
roles:
  everyone:
    denied_tools: [shell]
  places:
    "discord:70010": {agents: [general]}
  named:
    lead: {members: ["discord-role:70010:60010"]}
    guest:
      members: ["discord:10001"]
      tools: []
      limits: {max_token_budget: 2000}
      permissions: {"file_*": {ask: lead}}
discord:
  direct_messages: paired
"""
HERE, GUEST = "discord:70010:80010", "discord:10001"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(FILE)
    return path


def lines(file: Path, place: str, account: str, *groups: str) -> list[str]:
    text = shown(load(file, {}), file, place=place, account=account, groups=groups)
    return text.splitlines()


@pytest.mark.parametrize(
    ("group", "rights"),
    [
        ("discord-role:70010:60010", "admin"),
        ("discord-role:70010:60020", "admin"),
        ("discord-role:70020:60020", "user"),
        ("discord-role:70010:60030", "user"),
    ],
)
def test_the_members_of_an_admin_role_are_shown_as_admins(
    file: Path, group: str, rights: str
) -> None:
    admins = 'access: {place_admins: {"discord:70010": ["discord-role:70010:60010"]}}\n'
    file.write_text(f"{FILE}  admin_roles: ['60020']\n{admins}")

    assert lines(file, HERE, "discord:10009", group)[0].endswith(f": {rights}")


def test_a_rule_about_every_subject_and_a_high_cap_are_shown_as_they_are_written(
    file: Path,
) -> None:
    file.write_text(
        'permissions:\n  rules:\n    "shell:*": ask\nsubagents: {max_token_budget: 1234567}\n'
    )

    found = lines(file, HERE, GUEST)

    assert "- rule: shell: ask (permissions.rules.shell:*, config.yaml line 3)" in found
    assert "- max_token_budget: 1,234,567 (subagents.max_token_budget, config.yaml line 4)" in found


def test_each_value_has_its_source(file: Path) -> None:
    found = lines(file, HERE, GUEST)

    assert found == [
        f"What applies to {GUEST} in {HERE}: user",
        "- role: guest (roles.named.guest, config.yaml line 10)",
        "- agents: only general (roles.places.discord:70010.agents, config.yaml line 7)",
        "- models: all (default)",
        "- tools: none (roles.named.guest.tools, config.yaml line 12)",
        "- tools: not shell (roles.everyone.denied_tools, config.yaml line 5)",
        "- skills: all (default)",
        "- calls that change something: allow (permissions.default, default)",
        "- rule: mail: ask (permissions.rules.mail, config.yaml line 2)",
        "- rule: file_*: ask:lead (roles.named.guest.permissions.file_*, config.yaml line 14)",
        "- max_concurrent_per_user: 3 (subagents.max_concurrent_per_user, default)",
        "- max_queued_per_user: 5 (subagents.max_queued_per_user, default)",
        "- max_token_budget: 2,000 (roles.named.guest.limits.max_token_budget, "
        "config.yaml line 13)",
        "- max_timeout_minutes: 10 (subagents.max_timeout_minutes, default)",
        "- max_tool_calls_per_run: 25 (subagents.max_tool_calls_per_run, default)",
        "- max_depth: 1 (subagents.max_depth, default)",
    ]


def test_a_place_in_which_the_role_may_not_use_the_bot_is_named_so(file: Path) -> None:
    places = 'places: ["discord:70010"]'
    file.write_text(FILE.replace("tools: []", f"{places}\n      tools: []"))

    refused = "- may not use this bot here (roles.named.guest.places, config.yaml line 12)"
    assert refused not in lines(file, HERE, GUEST)
    assert lines(file, "discord:70020:80020", GUEST)[2] == refused


def test_the_role_is_that_of_the_given_groups_and_place(file: Path) -> None:
    lead = lines(file, HERE, "discord:10002", "discord-role:70010:60010")
    direct = lines(file, "discord:", "discord:10002")

    assert lead[1] == "- role: lead (roles.named.lead, config.yaml line 9)"
    assert "- tools: all (default)" in lead
    assert direct[1] == "- role: user (roles.default, default)"
    assert direct[-1] == "- direct messages: paired (discord.direct_messages, config.yaml line 16)"


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        ("slack:T10:C10", Place("slack", "T10", "C10")),
        ("discord:70010", Place("discord", "70010", "")),
        ("discord:", Place("discord", "", "")),
    ],
)
def test_places_are_named_as_in_the_configuration(typed: str, place: Place) -> None:
    assert place_named(typed) == place


@pytest.mark.parametrize("typed", ["", "here", "irc:x", "slack:T1:C1:1.0"])
def test_what_is_no_place_is_refused(typed: str) -> None:
    with pytest.raises(BadRequestError, match="is no place"):
        place_named(typed)


def test_the_command_shows_it(file: Path) -> None:
    typed = ["settings", "--place", HERE, "--user", GUEST, "--config", str(file)]

    result = CliRunner().invoke(build(), typed)

    assert result.exit_code == 0
    assert "- role: guest (roles.named.guest, config.yaml line 10)" in result.stdout
