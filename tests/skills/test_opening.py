"""A skill follows its changed settings; one that cannot stays as it was."""

from pathlib import Path

import pytest

from bot.app import open_bot
from bot.config.model import Config
from bot.errors import ConfigError
from bot.values import Json
from migrations.run import open_database
from skills.declaration import SkillDeclaration
from skills.schedules import skill as schedules


class Held:
    """A configuration that a test changes."""

    def __init__(self, folder: Path) -> None:
        self._base: Json = {
            "database": {"url": f"sqlite:///{folder}/retinue.db"},
            "shell": {"enabled": False},
            "workspaces": {"folder": str(folder / "workspaces")},
        }
        self.set()

    def set(self, **sections: Json) -> None:
        self.config = Config.model_validate(self._base | sections)

    def __call__(self) -> Config:
        return self.config


async def test_only_a_skill_whose_settings_have_changed_is_opened_anew(tmp_path: Path) -> None:
    held = Held(tmp_path)
    async with (
        open_database(held().database) as database,
        open_bot(held, {}, database=database) as bot,
    ):
        names = [each.name for each in bot.registry.skills]
        before = {each.name: each for each in bot.registry.skills}
        held.set(schedules={"max_per_user": 1})
        problems = await bot.skills.update()
        after = {each.name: each for each in bot.registry.skills}

        assert problems == []
        assert [each.name for each in bot.registry.skills] == names
        assert [name for name in names if after[name] is not before[name]] == ["scheduler"]
        held.set(schedules={"enabled": False})
        await bot.skills.update()
        assert bot.registry.find("schedule_task") is None
        held.set()
        await bot.skills.update()
        assert bot.registry.find("schedule_task") is not None


async def test_a_skill_that_cannot_be_opened_stays_as_it_was_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(tmp_path)
    async with (
        open_database(held().database) as database,
        open_bot(held, {}, database=database) as bot,
    ):
        before = bot.registry.find("schedule_task")
        held.set(schedules={"max_per_user": 1})

        def fail(_: object) -> None:
            raise ConfigError("Its clock is broken.")

        broken = SkillDeclaration(build=fail)
        monkeypatch.setattr(schedules, "SKILL", broken)
        problems = await bot.skills.update()

        assert problems == ["The skill schedules stays as it was: Its clock is broken."]
        assert bot.registry.find("schedule_task") is before
