"""Shows what applies to a user in a place by the configuration alone."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bot.accounts import account_of
from bot.config.loading import origins
from bot.config.model import Config
from bot.config.reloading import LiveConfig
from bot.conversations.access import place_named, spelled
from bot.conversations.inbound import authorise
from bot.conversations.rights import RightsDirectory
from bot.errors import ConfigError, NotAllowedError
from bot.platforms.catalog import PLATFORMS
from bot.rights.describing import DEFAULT, RightsSources
from bot.rights.settings import role_of
from bot.values import Identity, Place

#: The source of every value while the file has a mistake, or is being replaced.
FORMER = "from before the last change of the file"
#: Names of configuration keys → the line of the file, or the variable, that sets them.
Origins = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SettingsReport:
    """Describes the settings that apply to users."""

    config: LiveConfig
    directory: RightsDirectory

    async def lines(self, user: Identity, place: Place) -> list[str]:
        """Return lines on the rights of a user in a place, Markdown.

        Raises:
            NotAllowedError: The role depends on the platform, which does not answer.
        """
        role = await self.directory.role_of(user, place)
        known: Origins | None = None
        if self.config.is_of_file:
            with suppress(ConfigError):
                known = origins(self.config.file, os.environ)
        return sources_of(self.config, known).described(role, place)

    async def standing(self, user: Identity, place: Place) -> frozenset[str]:
        """Return the rules, as they are spelled, that no longer ask a user in a place."""
        return await self.directory.standing(user, place)


def sources_of(config: LiveConfig, known: Origins | None) -> RightsSources:
    """Return the settings that rights are made of, with their sources.

    Args:
        config: The configuration in force.
        known: The origins of its keys; `None` while the file has another content.
    """
    now = config()

    def origin(key: str) -> str:
        if known is None:
            return FORMER
        # The rules and limits of a level stand below its key.
        below = (text for name, text in known.items() if name.startswith(f"{key}."))
        return known.get(key) or next(below, DEFAULT)

    return RightsSources(
        roles=now.roles,
        permissions=now.permissions,
        subagents=now.subagents,
        direct=config.direct_messages,
        origin=origin,
    )


def shown(
    config: Config, file: Path | None, *, place: str, account: str, groups: Sequence[str]
) -> str:
    """Return the settings that apply to an account in a place, each with its source.

    Raises:
        BadRequestError: The place or the account is none.
    """
    user, there = account_of(account), place_named(place)
    role = role_of(config.roles, user, there, groups)
    try:
        sections = (config.section(kind) for kind in PLATFORMS if kind.section == there.platform)
        roles = (each for section in sections for each in getattr(section, "admin_roles", ()))
        beginning = f"{there.platform}-role:{there.workspace}"
        admins = config.access.admins_at(there) | {f"{beginning}:{each}" for each in roles}
        rights = str(authorise(user, config.access, there, admin=not admins.isdisjoint(groups)))
    except NotAllowedError:
        rights = "blocked"
    live = LiveConfig(config)
    lines = sources_of(live, origins(file, os.environ)).described(role, there)
    head = f"What applies to {spelled(user)} in {place}: {rights}"
    return "\n".join([head, *(line.replace("`", "") for line in lines)])
