"""The guide to Discord (docs/discord.md) says what is so."""

import re
from pathlib import Path

import discord
import pytest

from bot.agent.settings import AgentSettings
from bot.config.loading import load
from bot.platforms.discord import limits, portal
from bot.platforms.discord.settings import DiscordSettings

ROOT = Path(__file__).parents[4]
GUIDE = (ROOT / "docs" / "discord.md").read_text("utf-8")


def test_it_lists_just_the_permissions_that_the_invite_asks_for() -> None:
    listed = re.findall(r"^\| ([A-Z][\w ]+) \| to [^|]+ \|$", GUIDE, re.MULTILINE)
    # Discord's page says View Channels, its API view_channel.
    flags = {name.lower().replace(" ", "_").replace("channels", "channel") for name in listed}

    assert discord.Permissions(**dict.fromkeys(flags, True)) == portal.PERMISSIONS
    assert f"permissions={portal.PERMISSIONS.value}" in GUIDE


def test_its_examples_are_right(tmp_path: Path) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)

    assert examples
    for text in examples:
        file = tmp_path / "config.yaml"
        file.write_text(text, "utf-8")
        assert load(file, {}).section(DiscordSettings) != DiscordSettings()


@pytest.mark.parametrize("key", DiscordSettings.model_fields)
def test_it_speaks_of_every_setting(key: str) -> None:
    assert re.search(rf"\b{key}\b", GUIDE)


@pytest.mark.parametrize(
    "said",
    [
        portal.TOKEN_REFUSED[:25],
        portal.without_content(1)[:70],
        f"Discord refused {limits.OPENS_AT:d} requests",
    ],
)
def test_what_it_quotes_is_what_is_said(said: str) -> None:
    assert said in GUIDE


def test_it_says_that_cards_are_public() -> None:
    assert "The cards of runs are public: whoever reads the channel sees" in GUIDE


def test_the_readme_leads_to_it() -> None:
    assert "(docs/discord.md)" in (ROOT / "README.md").read_text("utf-8")


def test_it_begins_without_discord_and_with_the_key_of_the_model() -> None:
    start = GUIDE.partition("## 1.")[0]

    assert "make chat" in start
    assert "export ANTHROPIC_API_KEY" in start


def test_it_names_the_scopes_of_both_installations_and_the_review_of_the_intent() -> None:
    invited = portal.invite_url(1).partition("&scope=")[2].partition("&")[0]
    (line,) = re.findall(
        r"^\| \*\*Installation\*\*, Default Install Settings .*$", GUIDE, re.MULTILINE
    )

    assert all(f"`{scope}`" in line for scope in invited.split("+"))
    assert "Guild Install: scopes `applications.commands` **and `bot`**" in line
    assert "User Install: scope `applications.commands`" in line
    assert "once 10,000 users can reach it" in GUIDE


def test_what_it_says_of_threads_is_so() -> None:
    minutes = AgentSettings().listen_minutes

    assert minutes == 24 * 60
    assert "until a day after the last word (`agent.listen_minutes`)" in GUIDE
    assert "no mention is needed" not in GUIDE
