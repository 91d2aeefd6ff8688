"""What an admin is told about a configuration that can be used."""

from pathlib import Path

import pytest

from bot.cautions import cautions
from bot.config.loading import load
from bot.config.model import Config

DISCORD = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"
SLACK = "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx"


def told(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return cautions(load(file, {}), file, {})


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"discord: {{token: {DISCORD}}}", "discord.token (line 1)"),
        (f"slack: {{bot_token: {SLACK}, app_token: xapp-1-A}}", "slack.bot_token (line 1)"),
        ("slack: {signing_secret: some-words}", "slack.signing_secret (line 1)"),
        ("models:\n  anthropic:\n    api_key: some-words", "models.anthropic.api_key (line 3)"),
        ("search: {api_key: some-words}", "search.api_key (line 1)"),
        ("audit: {key: some-words some-words some-words}", "audit.key (line 1)"),
        ("database: {url: 'postgresql://bot:hunter22@host/name'}", "database.url (line 1)"),
        (f"agent: {{name: Rita, timezone: UTC, instructions: 'It is {DISCORD}.'}}", "agent."),
    ],
)
def test_a_secret_that_stands_in_the_file_is_found_wherever_it_is(
    tmp_path: Path, text: str, key: str
) -> None:
    found = told(tmp_path, text)

    assert found[0].startswith(key)
    assert "write `${NAME}` in its place" in found[0]
    assert not any(secret in str(found) for secret in (DISCORD, SLACK, "hunter22", "some-words"))


def test_variables_are_no_secrets_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "discord: {token: '${TOKEN}'}\ndatabase: {url: 'postgresql://b:${WORD}@host/name'}\n"
        "audit: {key: '${KEY}'}"
    )
    environ = {"TOKEN": DISCORD, "WORD": "hunter22", "KEY": "k" * 32}

    assert cautions(load(file, environ), file, environ) == []


@pytest.mark.parametrize(
    ("server", "name", "form"),
    [
        ("discord:10001", "discord-role:20002:30003", "discord-role:10001:"),
        ("discord:10001", "discord-role:30003", "discord-role:10001:"),
        ("discord:10001", "slack-group:T0123:S0123", "discord-role:10001:"),
        ("slack:T0123", "slack-group:T0456:S0123", "slack-group:T0123:"),
        ("discord:10001", "discord-role:10001:30003", ""),
        ("slack:T0123", "slack-group:T0123:S0123", ""),
        ("slack:T0123", "slack-group:E0123:S0123", ""),
        ("slack:E0123", "slack-group:T0123:S0123", ""),
    ],
)
def test_a_group_of_another_server_makes_nobody_an_admin(
    tmp_path: Path, server: str, name: str, form: str
) -> None:
    found = told(tmp_path, f"access: {{place_admins: {{'{server}': ['{name}']}}}}")

    key = f"access.place_admins.{server} names “{name}”, which matches nobody there"
    assert found == ([f"{key}: write `{form}` and the id of the group."] if form else [])


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("nonsense", "begin with `discord:`, `slack:` or `terminal:`"),
        ("discrod:123456789012345678", "begin with `discord:`"),
        ("discord:alice", "the number that Copy User ID gives"),
        ("slack:U0123456", "like `slack:T0123:U0123`"),
        ("slack:t0123:u0123", "like `slack:T0123:U0123`"),
        ("terminal:", "the name of the account"),
        ("discord:123456789012345678", "as long as Discord is not set up"),
    ],
)
@pytest.mark.parametrize("key", ["admins", "blocked"])
def test_a_name_that_matches_nobody_is_found(
    tmp_path: Path, key: str, name: str, advice: str
) -> None:
    (found,) = told(tmp_path, f"access: {{{key}: ['{name}']}}")

    assert found.startswith(f"access.{key} names “{name}”, which matches nobody")
    assert advice in found


def test_names_that_match_somebody_are_not_remarked_on() -> None:
    config = Config.model_validate(
        {
            "access": {
                "admins": ["discord:123456789012345678", "slack:T01234:U01234", "terminal:alice"],
                "blocked": ["slack:E01234:W01234"],
            },
            "discord": {"token": DISCORD},
            "slack": {"bot_token": SLACK, "app_token": "xapp-1-A1-2-abc"},
        }
    )

    assert cautions(config, None, {}) == []


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("claude-sonet-5-5", "claude-sonnet-5-5"),
        ("claud-opus-5-5", "claude-opus-5-5"),
        ("claude-haiko-5-5", "claude-haiku-5-5"),
        ("claud-sonet-5-5", "claude-sonnet-5-5"),
        ("claude-sonnet-5-5", None),
        ("claude-novel-6", None),
    ],
)
def test_a_model_of_claude_that_looks_misspelt_is_found(model: str, meant: str | None) -> None:
    claude = {"api_key": "some-key", "main_model": model}
    found = cautions(Config.model_validate({"models": {"anthropic": claude}}), None, {})
    gateway = {"anthropic": claude | {"base_url": "https://gateway.example"}}

    assert [f"did you mean `{meant}`?" in each for each in found] == [True] * bool(meant)
    assert cautions(Config.model_validate({"models": gateway}), None, {}) == []


def test_a_model_without_a_price_is_told_where_money_is_limited(tmp_path: Path) -> None:
    models = "models: {openai: {api_key: k, base_url: 'http://localhost:1', main_model: llama}}"

    free = told(tmp_path, models)
    limited = told(tmp_path, f"{models}\nspending: {{bot: {{day: {{usd: 5}}}}}}")

    assert not any("no price" in each for each in free)
    assert any("openai/llama has no price, so that it is refused" in each for each in limited)


def test_several_machines_without_a_key_of_the_audit_log_are_told(tmp_path: Path) -> None:
    (found,) = told(tmp_path, "database: {url: 'postgresql://bot@host/name'}")

    assert "audit.key is not set" in found


def test_a_limit_that_names_nothing_is_told(tmp_path: Path) -> None:
    limits = "{day: {usd: 1}}"
    good = (
        f"spending: {{channels: {{'discord:1100000000000000001': {limits}, "
        f"'slack:T01234567:C01234567': {limits}}}, workspaces: {{'slack:T01234567': {limits}}}}}"
    )
    wrong = (
        f"spending: {{users: {{'slack:U01234567': {limits}}}, "
        f"channels: {{'slack:hall': {limits}}}, workspaces: {{'discord:my-server': {limits}}}}}"
    )

    assert told(tmp_path, good) == []
    found = told(tmp_path, wrong)
    assert [each.partition(" names")[0] for each in found] == [
        "spending.users",
        "spending.channels",
        "spending.workspaces",
    ]
    assert all("which matches no" in each for each in found)


def test_a_limit_for_an_unknown_role_is_told(tmp_path: Path) -> None:
    text = "spending: {roles: {guest: {}, gest: {each: {day: {usd: 1}}}}}"

    assert told(tmp_path, text) == [
        "spending.roles.gest limits a role that `roles.named` does not have."
    ]


def test_a_list_that_admits_nobody_is_named() -> None:
    closed = {"token": "x", "guilds": [], "channels": ["30000"], "users": [], "roles": ["70000"]}

    found = cautions(Config.model_validate({"discord": closed}), None, {})

    assert "discord.guilds is empty and admits nobody: remove it to admit all." in found
    assert not any("discord.channels" in each or "discord.users" in each for each in found)
