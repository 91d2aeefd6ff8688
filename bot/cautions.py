"""Warnings about a usable configuration: unwise settings and settings without effect."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

from bot.config.loading import remarks
from bot.config.model import Config
from bot.conversations.access import is_channel, is_server
from bot.models.catalog import FAMILIES
from bot.platforms.catalog import PLATFORMS, TERMINAL
from bot.rights.effective import GUEST, USER
from bot.rights.settings import GROUP_KINDS

BUILT_IN_ROLES = (USER, GUEST)
#: The pattern and the instruction for an account, by platform.
_ID = {
    **{kind.section: (re.compile(kind.account), kind.account_form) for kind in PLATFORMS},
    TERMINAL: (re.compile(r"\S(.{0,62}\S)?"), "write `terminal:` and the name of the account"),
}


def cautions(config: Config, file: Path | None, environ: Mapping[str, str]) -> list[str]:
    """Return warnings for an admin about a usable configuration, a sentence each.

    Args:
        config: The loaded configuration.
        file: The file from which it was loaded.
        environ: The environment variables, which may have set keys.

    Raises:
        ConfigError: The file cannot be read.
    """
    return [*remarks(file, environ), *unwise(config)]


def unwise(config: Config) -> list[str]:
    """Return the warnings that need no file; those about a key begin with it."""
    found = [
        *_people(config),
        *_groups(config),
        *_models(config),
        *_spending(config),
    ]
    given = config.monitoring
    if given.port is not None and given.host not in {"127.0.0.1", "::1", "localhost"}:
        found.append(
            f"monitoring.host {given.host} lets other computers read metrics without a password: "
            "admit only your Prometheus by a firewall or a network of its own."
        )
    for kind in PLATFORMS:
        section = config.section(kind)
        # One of the two lists of people is enough.
        named = getattr(section, "users", None) or getattr(section, "roles", None)
        people = () if named else ("users", "roles")
        found += [
            f"{kind.section}.{name} is empty and admits nobody: remove it to admit all."
            for name in ("guilds", "workspaces", "channels", *people)
            if section.configured and getattr(section, name, None) == ()
        ]
    if not config.database.is_sqlite and config.audit.key is None:
        found.append(
            "audit.key is not set: with PostgreSQL each machine would seal the audit log with a "
            "key of its own. Set one for all of them, such as `${RETINUE_AUDIT_KEY}`."
        )
    return found


def _people(config: Config) -> Iterator[str]:
    lists = {
        "access.admins": config.access.admins,
        "access.blocked": config.access.blocked,
        "spending.users": tuple(config.spending.users),
        **{
            f"access.place_admins.{server}": [
                name for name in names if not name.startswith(GROUP_KINDS)
            ]
            for server, names in config.access.place_admins.items()
        },
        **{
            f"{each.section}.{key}": names
            for each in config.of_skills
            for key, names in each.accounts.items()
        },
    }
    served = {kind.section: config.section(kind).configured for kind in PLATFORMS}
    for place, name in zip(config.access.admin_places, config.access.admin_channel, strict=True):
        if not served.get(place.platform, False):
            yield (
                f"access.admin_channel names “{name}”, which nobody can write to as long as "
                f"{place.platform.capitalize()} is not set up."
            )
    for key, names in lists.items():
        for name in names:
            platform, _, account = name.partition(":")
            if platform not in _ID:
                *first, last = (f"`{known}:`" for known in _ID)
                yield (
                    f"{key} names “{name}”, which matches nobody: begin with {', '.join(first)} or "
                    f"{last}."
                )
            elif not _ID[platform][0].fullmatch(account):
                yield f"{key} names “{name}”, which matches nobody: {_ID[platform][1]}."
            elif not served.get(platform, True):
                yield (
                    f"{key} names “{name}”, which matches nobody as long as "
                    f"{platform.capitalize()} is not set up."
                )


def _groups(config: Config) -> Iterator[str]:
    """Return warnings about groups that make nobody an admin, since they are of another server."""
    for server, names in config.access.place_admins.items():
        platform, _, own = server.partition(":")
        kind = "discord-role" if platform == "discord" else "slack-group"
        # The groups of an organisation (E…) count in its workspaces, and the other way round.
        organisation = platform == "slack" and own.startswith("E")
        for name in names:
            given, _, rest = name.partition(":")
            of, _, group = rest.partition(":")
            near = of == own or (platform == "slack" and (organisation or of.startswith("E")))
            if name.startswith(GROUP_KINDS) and not (given == kind and near and group):
                yield (
                    f"access.place_admins.{server} names “{name}”, which matches nobody there: "
                    f"write `{kind}:{own}:` and the id of the group."
                )


def _spending(config: Config) -> Iterator[str]:
    """Return warnings about limits on tokens and money that do not do what they seem to."""
    unknown = sorted(set(config.spending.roles) - {*config.roles.named, *BUILT_IN_ROLES})
    for name in unknown:
        yield f"spending.roles.{name} limits a role that `roles.named` does not have."
    for key, names, matches, forms in (
        ("channels", config.spending.channels, is_channel, [it.channel_form for it in PLATFORMS]),
        ("workspaces", config.spending.workspaces, is_server, [it.server_form for it in PLATFORMS]),
    ):
        for name in names:
            if not matches(name):
                yield (
                    f"spending.{key} names “{name}”, which matches nothing: write "
                    f"{', or '.join(forms)}."
                )
    if config.spending.limits_money:
        for choice in config.models.unpriced():
            yield (
                f"{choice} has no price, so that it is refused where `spending` limits money: set "
                "`models.prices` (0 is allowed)."
            )


def _models(config: Config) -> Iterator[str]:
    """Return warnings about names of Claude's models that look misspelt."""
    known = {"claude", *FAMILIES}
    # A gateway has model names of its own.
    choices = () if config.models.anthropic.base_url else config.models.choices
    for choice in choices:
        if choice.provider != "anthropic":
            continue
        near = (
            get_close_matches(word, known, 1, 0.7) or [word]
            for word in choice.model.lower().split("-")
        )
        meant = "-".join(words[0] for words in near)
        if meant != choice.model.lower():
            yield (
                f"The model {choice} looks misspelt: did you mean `{meant}`? "
                "`python -m bot doctor` asks its provider."
            )
