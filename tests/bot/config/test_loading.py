"""Loading `config.yaml`: what counts, and how every mistake is told."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError
from sqlalchemy.engine import make_url

from bot.config.interpolation import Key
from bot.config.loading import FROM_ENVIRONMENT, load, locate, remarks
from bot.config.model import Config
from bot.config.problems import all_keys, name, section
from bot.errors import ConfigError
from bot.models.catalog import PROVIDERS, ModelSettings
from bot.platforms.discord.settings import DiscordSettings
from db.settings import DatabaseSettings
from skills.rest.settings import RestSettings

KEY = "sk-ant-api03-1234567890abcdefghij"
#: A secret that does not look like one.
WORD = "sesame-open"

Load = Callable[..., Config]


@pytest.fixture
def loaded(tmp_path: Path) -> Load:
    """Loads a file with the given text."""

    def load_text(text: str, environ: Mapping[str, str] | None = None) -> Config:
        file = tmp_path / "config.yaml"
        file.write_text(text, encoding="utf-8")
        return load(file, environ or {})

    return load_text


@pytest.fixture
def refused(loaded: Load) -> Callable[..., str]:
    """Loads a file with the given text, which must fail; gives the error's text."""

    def load_text(text: str, environ: Mapping[str, str] | None = None) -> str:
        with pytest.raises(ConfigError) as caught:
            loaded(text, environ)
        return str(caught.value)

    return load_text


# --- which file -----------------------------------------------------------------------------------


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        assert load(None, {}) == Config()


def test_the_file_here_is_used_unless_another_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("agent: {name: Here}")
    (tmp_path / "other.yaml").write_text("agent: {name: Other}")

    with contextlib.chdir(tmp_path):
        assert load(None, {}).agent.name == "Here"
        assert load(None, {"RETINUE_CONFIG": "other.yaml"}).agent.name == "Other"
        assert locate(Path("x.yaml"), {"RETINUE_CONFIG": "other.yaml"}) == Path("x.yaml")


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"There is no file .*nowhere\.yaml"):
        load(tmp_path / "nowhere.yaml", {})


def test_a_folder_in_the_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, {})


# --- what counts ----------------------------------------------------------------------------------


def test_what_the_file_sets_counts_and_the_rest_keeps_its_default(loaded: Load) -> None:
    config = loaded("subagents:\n  spawn_rate_limit:\n    max_requests: 3\n")

    assert config.subagents.spawn_rate_limit.max_requests == 3
    assert config.subagents.spawn_rate_limit.window_seconds == 3600
    assert config.agent == Config().agent


def test_a_section_without_keys_is_as_good_as_none(loaded: Load) -> None:
    assert loaded("subagents:\n  spawn_rate_limit:\naccess:\n") == Config()


def test_texts_from_the_environment_become_numbers_and_switches(loaded: Load) -> None:
    text = "subagents: {enabled: '${ON}', max_depth: '${DEPTH:-2}', sync_timeout_seconds: '${T}'}"

    subagents = loaded(text, {"ON": "no", "T": "1.5"}).subagents

    assert (subagents.enabled, subagents.max_depth) == (False, 2)
    assert subagents.sync_timeout_seconds == 1.5


def test_a_variable_of_the_environment_counts_more_than_the_file(loaded: Load) -> None:
    environ = {
        "RETINUE__SUBAGENTS__MAX_QUEUED_PER_USER": "3",
        "RETINUE__SUBAGENTS__SPAWN_RATE_LIMIT__MAX_REQUESTS": "4",
        "RETINUE__ACCESS__ADMINS": '["discord:1", "slack:T1:U2"]',
    }

    config = loaded("subagents:\n  max_queued_per_user: 9\n", environ)

    assert config.subagents.max_queued_per_user == 3
    assert config.subagents.spawn_rate_limit.max_requests == 4
    assert config.access.admins == ("discord:1", "slack:T1:U2")


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
@pytest.mark.parametrize("in_file", ["", "api_key: ''", "api_key:", "api_key: ${UNSET:-}"])
def test_the_usual_variables_give_key_and_address_when_the_file_does_not(
    loaded: Load, provider: str, in_file: str
) -> None:
    text = f"models:\n  {provider}:\n    main_model: some-model\n    {in_file}\n"
    prefix = provider.upper()
    address = "http://127.0.0.1:9"

    config = loaded(text, {f"{prefix}_API_KEY": f"{KEY}\n", f"{prefix}_BASE_URL": address})

    settings = getattr(config.models, provider)
    assert settings.api_key.get_secret_value() == KEY
    assert settings.base_url == address


def test_the_token_of_discord_comes_from_its_usual_variable(loaded: Load) -> None:
    given = loaded("", {"DISCORD_TOKEN": f" {WORD}\n"})
    empty = loaded("discord: {token: }", {"DISCORD_TOKEN": " "})

    assert given.section(DiscordSettings).configured
    assert given.secrets == {WORD}
    assert not empty.section(DiscordSettings).configured


def test_the_word_off_may_stand_without_quotes(loaded: Load) -> None:
    assert loaded("discord: {commands: off}").section(DiscordSettings).commands == "off"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_variables_that_happen_to_be_set_stop_nothing(loaded: Load, provider: str) -> None:
    own = [name for key, name in FROM_ENVIRONMENT.items() if key[:2] == ("models", provider)]
    environ = dict.fromkeys(own, "http://127.0.0.1:9")

    usual = ModelSettings().providers[provider].main_model

    chosen = loaded("", environ).models.chosen

    assert chosen == (provider if own and usual else "offline")


@pytest.mark.parametrize("key", ["allowed", "fallbacks"])
def test_a_key_from_the_environment_counts_as_soon_as_its_model_is_asked_for(
    loaded: Load, key: str
) -> None:
    environ = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}

    assert loaded(f"models: {{{key}: [openai/gpt]}}", environ).models.openai.api_key is not None


@pytest.mark.parametrize("named", ["openrouter/openai/gpt-5", "my-openai/m"])
def test_a_provider_in_the_name_of_anothers_model_is_not_asked_for(
    loaded: Load, named: str
) -> None:
    server = named.partition("/")[0]
    file = (
        f"models: {{servers: {{{server}: {{base_url: 'http://127.0.0.1:9', main_model: m}}}},"
        f" fallbacks: [{named}]}}"
    )

    models = loaded(file, {"OPENAI_API_KEY": KEY}).models

    assert models.openai.api_key is None
    assert models.chosen == server


def test_a_key_in_the_file_counts_more_than_the_usual_variable(loaded: Load) -> None:
    config = loaded("models: {anthropic: {api_key: from-the-file}}", {"ANTHROPIC_API_KEY": KEY})

    assert config.models.anthropic.api_key is not None
    assert config.models.anthropic.api_key.get_secret_value() == "from-the-file"


def test_an_empty_key_is_no_key(loaded: Load) -> None:
    config = loaded("models: {anthropic: {api_key: ''}}", {"ANTHROPIC_API_KEY": " "})

    assert config.models.anthropic.api_key is None


# --- what is refused ------------------------------------------------------------------------------


def test_every_problem_is_told_at_once_with_its_line(refused: Callable[..., str]) -> None:
    text = """\
agent:
  name: ${MISSING}
  max_steps: many
subagents:
  max_dept: 2
  max_dept: 3
"""

    told = refused(text, {"RETINUE__RETENTION__RUNS_DAYS": "0"})

    assert "config.yaml cannot be used:\n" in told
    assert "  agent.name (line 2): the environment variable MISSING is not set" in told
    assert "  agent.max_steps (line 3): must be a whole number; the default is 20." in told
    assert "  subagents.max_dept (line 5): is there twice, also in line 6" in told
    assert "  retention.runs_days (from RETINUE__RETENTION__RUNS_DAYS): must be more than 0" in told


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("subagents: {max_dept: 2}", "subagents.max_dept (line 1): there is no such key; did you"
         " mean `max_depth`?"),
        ("subagents: {maxConcurrentPerUser: 2}", "did you mean `max_concurrent_per_user`?"),
        ("subagent: {enabled: true}", "subagent (line 1): there is no such key; did you mean"
         " `subagents`?"),
        ("max_concurrent_per_user: 2", "it belongs to `subagents.max_concurrent_per_user`"),
        ("agent: {spawn_rate_limit: {}}", "it belongs to `subagents.spawn_rate_limit`"),
        ("access: {runs_day: 3}", "did you mean `retention.runs_days`?"),
        ("access: {zzz: 3}", "here you can set admins, place_admins"),
        ("<<: {a: 1}", "there is no such key"),
        ("discord: {guild: [12345]}", "did you mean `guilds`?"),
        ("slack: {channel: [C123]}", "did you mean `channels`?"),
        ("agents: {folder: [a]}", "did you mean `folders`?"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_answered_with_the_one_that_was_meant(
    refused: Callable[..., str], text: str, advice: str
) -> None:
    assert advice in refused(text)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("discord: {guilds: [our-server]}", "discord.guilds[0] (line 1): must be an id, which has"),
        ("discord: {users: [true]}", "choose Copy ID"),
        ("discord: {shard_ids: [0]}", "`discord.shard_ids` needs `discord.shard_count`"),
        ("discord: {shard_count: 2, shard_ids: [2]}", "goes from 0 to 1, not 2"),
        ("discord: {commands: guilds}", "`discord.commands: guilds` needs `discord.guilds`"),
        (
            "discord: {api_url: nowhere}",
            "must be written otherwise: see it in config.example.yaml;"
            " the default is https://discord.com/api/v10",
        ),
        ("agent: {timezone: Europe}", "agent.timezone (line 1): no time zone 'Europe'; use"),
        ("agent: {timezone: Nowhere}", "agent.timezone (line 1): no time zone 'Nowhere'; use"),
        ("agent: {name: 12}", "agent.name (line 1): must be text; put it in quotes"),
        ("agent: {name: ''}", "must have at least 1 characters"),
        ("agent: {max_steps: 0}", "must be at least 1; the default is 20"),
        ("agent: {max_steps: 201}", "must be at most 200"),
        ("agent: {compact_at: 1}", "must be at most 0.95; the default is 0.6"),
        ("catch_up: {quote_after_minutes: 1e13}", "at most 52,560,000; the default is 10"),
        (
            "workspaces: {user_bytes: 10000000000000000000000}",
            "must be at most 1,000,000,000,000,000,000",
        ),
        ("agent: {max_steps: }", "must be a whole number"),
        ("agent: {max_steps: yes}", "must be a whole number"),
        ("retention: {audit_days: true}", "must be a number; the default is 365"),
        ("roles: {everyone: {limits: {max_depth: on}}}", "must be a whole number"),
        ("subagents: 3", "subagents (line 1): must be a section with keys of its own below it"),
        ("subagents: {enabled: perhaps}", "must be `true` or `false`; the default is true"),
        ("subagents: {sync_timeout_seconds: .inf}", "must be a number; the default is 120"),
        ("access: {admins: discord:1}", "must be a list, like [a, b]"),
        ("access: {admins: [1]}", "access.admins[0] (line 1): must be text"),
        ("logging: {level: loud}", "must be 'debug', 'info', 'warning' or 'error'; the default"),
        ("database: {url: mysql://h/d}", "write `sqlite:///` and the path of a file"),
        ("database: {url: 'sqlite:///:memory:'}", "write `sqlite:///` and the path of a file"),
        ("subagents: {default_timeout_minutes: 11}", "above max_timeout_minutes"),
        ("models: {provider: openai}", "models (line 1): openai/ needs `models.openai.api_key`"),
        ("spending: {user: {day: {usd: lots}}}", "must be a number, such as 2.50"),
        ("spending: {user: {day: {usd: 0.12345678}}}", "must have at most 6 digits behind the"),
        ("a: [${X}]", "line 1: it is not valid YAML"),
    ],
)
def test_a_wrong_value_is_answered_with_its_key_and_what_would_be_right(
    refused: Callable[..., str], text: str, advice: str
) -> None:
    assert advice in refused(text)


def _keys_with_values() -> Iterator[Key]:
    for key, field in all_keys(Config):
        if not section(field):
            yield key


@pytest.mark.parametrize("key", [pytest.param(key, id=name(key)) for key in _keys_with_values()])
def test_every_key_refuses_what_it_cannot_take_in_a_sentence_with_the_key(
    refused: Callable[..., str], key: Key
) -> None:
    text = "{a: [{b: 1}]}"
    for part in reversed(key):
        text = f"{{{part}: {text}}}"

    told = refused(text)

    assert name(key) in told
    assert "line 1" in told
    assert told.endswith(".")
    assert "Input should" not in told


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "agent: {timezone: '${SECRET}'}",
        "logging: {level: '${SECRET}'}",
        "models: {anthropic: {api_key: ['${SECRET}']}}",
        "models: {anthropic: {api_key: {a: '${SECRET}'}}}",
        "database: {url: '${SECRET}'}",
        "agent: '${SECRET}'",
    ],
)
@pytest.mark.parametrize("secret", [KEY, "a plain password", "postgres://u:pass-word@h/d x"])
def test_no_error_shows_what_a_variable_of_the_environment_holds(
    refused: Callable[..., str], text: str, secret: str
) -> None:
    if "url" in text and secret.startswith("postgres"):
        text += "\nagent: {max_steps: x}"

    told = refused(text, {"SECRET": secret})

    assert secret not in told
    assert "pass-word" not in told


@pytest.mark.parametrize(
    "text",
    [
        f"models: {{anthropic: {{api_key: [{WORD}]}}}}",
        f"models:\n  anthropic:\n    api_key: !{WORD}",
        f"models:\n  anthropic:\n    api_key: !x!{WORD}",
        f"models:\n  anthropic:\n    api_key: *{WORD}",
        f"models:\n  anthropic:\n    api_key: &{WORD} 1\n    base_url: &{WORD} 2",
        f"models:\n  anthropic:\n    api_key: '{WORD}\n",
        f"models:\n  anthropic:\n    api_key: {WORD}: x",
        f"agent: {{timezone: {KEY}}}",
    ],
)
def test_no_error_shows_a_key_that_stands_in_the_file(
    refused: Callable[..., str], text: str
) -> None:
    told = refused(text)

    assert KEY not in told
    assert WORD not in told


@pytest.mark.parametrize("part", ["headers: {Authorization: Bearer WORD}", "query: {key: 'WORD'}"])
def test_a_secret_of_a_rest_service_that_stands_in_the_file_is_refused_with_the_way_to_write_it(
    refused: Callable[..., str], part: str
) -> None:
    service = f"document: x.yaml\n      enabled: false\n      {part.replace('WORD', WORD)}\n"

    told = refused(f"rest:\n  services:\n    weather:\n      {service}")

    key = part.partition(":")[0] + "." + part.partition("{")[2].partition(":")[0]
    assert f"rest.services.weather.{key} (line 6): a secret must not stand in the file" in told
    assert "`${NAME}`" in told
    assert WORD not in told


def test_a_secret_of_a_rest_service_comes_from_the_environment(loaded: Load) -> None:
    text = """
rest:
  services:
    weather:
      document: x.yaml
      headers: {Authorization: "Bearer ${WORD}", Accept: application/json, X-Version: "2022-11-28"}
"""
    given = {"RETINUE__REST__SERVICES__WEATHER__QUERY": f"{{key: {KEY}}}", "WORD": WORD}

    service = loaded(text, given).section(RestSettings).services["weather"]

    assert service.headers["Authorization"].get_secret_value() == f"Bearer {WORD}"
    assert service.headers["Accept"].get_secret_value() == "application/json"
    assert service.query["key"].get_secret_value() == KEY


def test_other_secrets_that_stand_in_the_file_are_remarked_on_by_their_keys(
    loaded: Load, tmp_path: Path
) -> None:
    loaded(f"""
calendar:
  calendars:
    team: {{url: "https://host/team/", username: bot, password: {WORD}}}
    mine: {{url: "https://host/mine/", username: bot, password: "${{WORD}}"}}
mcp:
  servers:
    web: {{url: "https://host/mcp", headers: {{X-Api-Key: {WORD}, Accept: text/plain}}}}
    here: {{command: [here], environment: {{HERE_TOKEN: {WORD}, HERE_MODE: fast}}}}
""", {"WORD": WORD})  # fmt: skip

    told = remarks(tmp_path / "config.yaml", {})

    assert [each.partition(" is a secret")[0] for each in told] == [
        "calendar.calendars.team.password (line 4)",
        "mcp.servers.web.headers.X-Api-Key (line 8)",
        "mcp.servers.here.environment.HERE_TOKEN (line 9)",
    ]
    assert WORD not in "".join(told)


def test_without_a_file_there_is_nothing_to_remark_on(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        assert remarks(None, {}) == []


def test_secrets_are_known_wherever_they_stand_and_never_part_of_a_text(loaded: Load) -> None:
    text = """
models: {anthropic: {api_key: key-one}, openai: {api_key: key-two, main_model: m}}
database: {url: "postgresql://bot:p%40ss@host/name"}
"""

    config = loaded(text)

    assert config.secrets == {"key-one", "key-two", "p%40ss", "p@ss"}
    for secret in config.secrets:
        assert secret not in repr(config) + str(config)


@pytest.mark.parametrize(
    ("url", "shown", "passwords"),
    [
        ("sqlite:////a:b@c/x.db", "sqlite:////a:b@c/x.db", set()),
        ("postgresql://u:p%40w@h/d", "postgresql://u:[secret]@h/d", {"p%40w", "p@w"}),
        ("postgresql://u:p/w?[@h/d", "postgresql://u:[secret]@h/d", {"p/w?["}),
        ("postgresql://u@h/d", "postgresql://u@h/d", set()),
        ("postgresql://postgres:@/d?host=/run/x", "postgresql://postgres:@/d?host=/run/x", set()),
        (
            "postgresql://h/d?a=1&password=x&b=2",
            "postgresql://h/d?a=1&password=[secret]&b=2",
            {"x"},
        ),
    ],
)
def test_a_database_is_shown_without_its_password(
    url: str, shown: str, passwords: set[str]
) -> None:
    settings = DatabaseSettings(url=url)

    assert settings.shown == shown
    assert set(settings.passwords) == passwords


@pytest.mark.parametrize(
    "account",
    [
        "u:pine/apple@of:mine",
        "u:pine@apple",
        "pine/apple:mine",
        "u:pine@apple/of?mine",
        "u:pine:mine@of",
    ],
)
def test_a_database_whose_password_is_not_escaped_is_refused_without_showing_it(
    loaded: Load, account: str
) -> None:
    """SQLAlchemy said: invalid literal for int() with base 10: 'mine@127.0.0.1:1'."""
    with pytest.raises(ConfigError) as refused:
        loaded(f"database: {{url: 'postgresql://{account}@127.0.0.1:1/db'}}")

    with pytest.raises(ValidationError) as by_hand:
        DatabaseSettings(url=f"postgresql://{account}@127.0.0.1:1/db")

    assert "database.url (line 1): its parts cannot be told apart" in str(refused.value)
    assert "`postgresql://user:<password>@host:port/name`" in str(refused.value)
    for told in (str(refused.value), str(by_hand.value)):
        assert not any(word in told for word in ("pine", "apple", "mine"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:pass%2Fword@127.0.0.1:5432/db",
        "postgresql://u:a:b/c?d#e@127.0.0.1/db",
        "postgres://u@[::1]:5432/db",
        "postgresql+asyncpg://u@host/db?password=a@b&sslmode=require",
        "postgresql:///db?host=/run/postgresql",
    ],
)
def test_a_database_that_sqlalchemy_takes_apart_rightly_is_accepted(url: str) -> None:
    parsed = make_url(DatabaseSettings(url=url).url)

    assert parsed.database == "db"
    assert "@" not in f"{parsed.host}{parsed.username}"
