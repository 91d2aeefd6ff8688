"""The configuration in force: one swap replaces every section at once."""

import pytest

from bot.agent.settings import AgentSettings
from bot.config.model import Config
from bot.config.reloading import LiveConfig
from bot.subagents.limits import SubagentSettings
from bot.values import SkillSettings


def test_a_swap_replaces_all_sections_at_once() -> None:
    held = [Config()]
    current = LiveConfig(lambda: held[0])
    runs, agent = current.live(SubagentSettings), current.live(AgentSettings)

    held[0] = Config(
        subagents=SubagentSettings(max_concurrent_per_user=7), agent=AgentSettings(name="Rosa")
    )

    assert runs().max_concurrent_per_user == current().subagents.max_concurrent_per_user == 7
    assert agent().name == current.section(AgentSettings).name == "Rosa"


def test_fixed_settings_stand_in_for_live_ones() -> None:
    settings = SubagentSettings(max_concurrent_per_user=2)

    assert settings() is settings
    assert LiveConfig(Config(subagents=settings)).live(SubagentSettings)() is settings


def test_a_class_of_settings_without_a_section_is_named() -> None:
    class CoinSettings(SkillSettings):
        sides: int = 2

    with pytest.raises(LookupError, match=r"CoinSettings is no section .* declare `section`"):
        Config().section(CoinSettings)
