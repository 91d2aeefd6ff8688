"""The guide to Discord (docs/discord.md) says what is so."""

import re
from pathlib import Path

import pytest

from bot.config import load
from bot.platforms.discord import breaker, portal
from bot.platforms.discord.settings import DiscordSettings

ROOT = Path(__file__).parents[4]
GUIDE = (ROOT / "docs" / "discord.md").read_text("utf-8")


def test_it_lists_just_the_permissions_that_the_invite_asks_for() -> None:
    listed = re.findall(r"^\| ([A-Z][\w ]+) \| (to [^|]+) \|$", GUIDE, re.MULTILINE)

    assert listed == [(each.name, each.use) for each in portal.PERMISSIONS]
    assert f"permissions={portal.PERMISSION_INTEGER}" in GUIDE


def test_its_examples_are_right(tmp_path: Path) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)

    assert examples
    for text in examples:
        file = tmp_path / "config.yaml"
        file.write_text(text, "utf-8")
        assert load(file, {}).discord != DiscordSettings()


@pytest.mark.parametrize("key", DiscordSettings.model_fields)
def test_it_speaks_of_every_setting(key: str) -> None:
    assert re.search(rf"\b{key}\b", GUIDE)


@pytest.mark.parametrize(
    "said",
    [
        portal.TOKEN_REFUSED[:25],
        portal.without_content(1)[:70],
        f"Discord refused {breaker.OPENS_AT:d} requests",
    ],
)
def test_what_it_quotes_is_what_is_said(said: str) -> None:
    assert said in GUIDE


def test_the_readme_leads_to_it() -> None:
    assert "(docs/discord.md)" in (ROOT / "README.md").read_text("utf-8")
