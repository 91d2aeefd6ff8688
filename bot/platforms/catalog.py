"""Lists the chat platforms: a new platform is a package with its settings and a line here."""

from importlib import import_module
from typing import Any

from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.slack.settings import SlackSettings
from bot.values import PlatformSettings

PLATFORMS: tuple[type[PlatformSettings], ...] = (DiscordSettings, SlackSettings)


def module_of(kind: type[PlatformSettings], name: str) -> Any:
    """Import a module of a platform's package.

    Args:
        kind: The settings of the platform.
        name: `platform` with `open_platform`, `checkup` with `look` for `doctor`, or `report` with
            `lines` for `check`.
    """
    return import_module(f"{kind.__module__.rpartition('.')[0]}.{name}")
