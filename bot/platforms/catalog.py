"""Lists the chat platforms: a new platform is a package with its settings and a line here."""

from importlib import import_module
from typing import Any

from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.slack.settings import SlackSettings
from bot.values import PlatformSettings

PLATFORMS: tuple[type[PlatformSettings], ...] = (DiscordSettings, SlackSettings)

#: The platform of the terminal, which needs no settings.
TERMINAL = "terminal"


def declared(platform: str) -> type[PlatformSettings]:
    """Return the declaration of a platform by its name in places.

    The terminal and unknown platforms have the defaults of `PlatformSettings`.
    """
    return next((kind for kind in PLATFORMS if kind.section == platform), PlatformSettings)


def is_known(platform: str) -> bool:
    """Return True for the name of a platform, or of the terminal."""
    return platform in {TERMINAL, *(kind.section for kind in PLATFORMS)}


def module_of(kind: type[PlatformSettings], name: str) -> Any:
    """Import a module of a platform's package.

    Args:
        kind: The settings of the platform.
        name: `platform` with `open_platform`, `checkup` with `look` for `doctor`, or `report` with
            `lines` for `check`.
    """
    return import_module(f"{kind.__module__.rpartition('.')[0]}.{name}")
