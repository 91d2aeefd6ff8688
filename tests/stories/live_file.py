"""A configuration file that a story changes while the bot runs."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from bot.app import open_bot
from bot.config.loading import load
from bot.config.model import Config
from bot.config.reloading import ConfigWatch
from bot.platforms.base import Outlet
from bot.running import Bot
from bot.tasks import Tasks
from tests.fakes.patience import eventually


class LiveFile:
    """The part of `config.yaml` that a story changes; the rest is that of the bot's start.

    Attributes:
        watch: Watches it, once a bot runs.
    """

    watch: ConfigWatch

    def __init__(self, folder: Path) -> None:
        self.path = folder / "config.yaml"
        self.path.write_text("{}\n", encoding="utf-8")

    def watched(self, config: Config) -> ConfigWatch:
        """Return the watch that a bot starts with."""

        def read() -> Config:
            changed = load(self.path, {})
            sections = yaml.safe_load(self.path.read_text("utf-8")) or {}
            values: dict[str, Any] = {}
            for name, keys in sections.items():
                section = getattr(changed, name)
                values[name] = getattr(config, name).model_copy(
                    update={key: getattr(section, key) for key in keys}
                )
            return config.model_copy(update=values)

        self.watch = ConfigWatch(config, self.path, read)
        return self.watch

    def replace(self, text: str) -> None:
        """Put another file in its place, as editors do."""
        other = self.path.with_suffix(".new")
        other.write_text(text, encoding="utf-8")
        other.rename(self.path)

    async def counts(self, text: str) -> None:
        """Replace the file by a valid one, and wait until it is in force."""
        before = self.watch()
        self.replace(text)

        async def in_force() -> bool:
            return self.watch() is not before

        await eventually(in_force, "the changed configuration")


@asynccontextmanager
async def open_watched(
    config: Config, outlets: Mapping[str, Outlet], *, file: LiveFile | None = None, **given: Any
) -> AsyncIterator[Bot]:
    """Open a bot, which follows a file if there is one."""
    if file is None:
        async with open_bot(config, outlets, **given) as bot:
            yield bot
        return
    watch = file.watched(config)
    tasks = Tasks()
    async with open_bot(watch, outlets, **given) as bot:
        tasks.start(watch.run(bot.on_reload), name="watch")
        try:
            yield bot
        finally:
            await tasks.close()
