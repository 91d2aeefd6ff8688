"""The keys in which configurations differ, and those that need a restart."""

import re
from typing import Any

import pytest

from bot import masking
from bot.config.differences import KeyChange, differences, fingerprint, restart_keys
from bot.config.example import example, schema
from bot.config.model import Config
from bot.config.problems import all_keys


def config(**sections: Any) -> Config:
    return Config.model_validate(sections)


def changes(old: Config, new: Config) -> list[str]:
    return [str(each) for each in differences(old, new)]


def test_equal_configurations_have_no_differences() -> None:
    assert differences(config(), config(agent={"max_steps": 20})) == ()


def test_a_difference_names_key_and_both_values() -> None:
    new = config(
        agent={"max_steps": 3},
        permissions={"rules": {"shell:git *": "allow"}},
        access={"admins": ["discord:12345678901234567"]},
    )

    assert changes(config(), new) == [
        "`agent.max_steps`: 20 → 3",
        "`permissions.rules.shell:git *`: none → allow",
        "`access.admins`: [] → ['discord:12345678901234567']",
    ]
    assert differences(new, config())[1] == KeyChange(
        key="permissions.rules.shell:git *", old="allow", new="", secret=False, restart=False
    )


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ({}, {"models": {"anthropic": {"api_key": "new-key-of-claude"}}}, "api_key"),
        (
            {"database": {"url": "postgresql://bot:old-password@host/name"}},
            {"database": {"url": "postgresql://bot:new-password@host/name"}},
            "database.url",
        ),
    ],
)
def test_a_difference_shows_no_secret(
    old: dict[str, Any], new: dict[str, Any], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masking, "_known", set())
    before, after = config(**old), config(**new)
    masking.keep_secret(before.secrets | after.secrets)

    [change] = differences(before, after)

    assert key in change.key
    assert not [each for each in before.secrets | after.secrets if each in str(change)]


def test_the_fingerprint_changes_with_any_key_but_a_secret() -> None:
    base = fingerprint(config())

    assert fingerprint(config(agent={"max_steps": 20})) == base
    assert fingerprint(config(agent={"max_steps": 21})) != base
    keys = [{"models": {"anthropic": {"api_key": key}}} for key in ("first-key", "second-key")]
    assert fingerprint(config(**keys[0])) == fingerprint(config(**keys[1]))


def test_every_key_that_needs_a_restart_exists_and_says_so_in_example_and_schema() -> None:
    known = {key for key, _ in all_keys(Config)}
    restart = list(restart_keys())

    assert restart
    assert [key for key in restart if key not in known] == []
    words = re.sub(r"[\s#]+", " ", example())
    assert words.count("A change needs a restart.") == len(restart)
    assert schema().count("A change needs a restart.") >= len({key[-1] for key in restart})


def test_each_class_names_only_keys_of_its_own() -> None:
    kinds = {Config} | {type(each.default) for _, each in all_keys(Config)}
    for kind in kinds:
        names = getattr(kind, "at_start", ())
        assert set(names) <= set(getattr(kind, "model_fields", {})), kind
