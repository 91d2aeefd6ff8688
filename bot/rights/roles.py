"""Finds the role of a user in a place, and the rights that apply there (pure)."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from bot.conversations.access import spelled
from bot.rights.effective import Lists, Rights, RightsLevel
from bot.rights.settings import DIRECT, RolesSettings, names_of
from bot.values import Identity, Place

#: The beginnings of members that are roles or user groups of a platform.
GROUP_KINDS = ("discord-role:", "slack-group:")
#: Names of tools, patterns and skills → names and patterns of tools.
Expand = Callable[[Iterable[str]], Collection[str]]


def role_of(settings: RolesSettings, user: Identity, place: Place, groups: Collection[str]) -> str:
    """Return the name of a user's role: the first whose members include the user.

    Args:
        settings: The roles.
        user: The user.
        place: The place, whose channel may make everyone there a member.
        groups: The user's roles and user groups in the server or workspace of the place, as
            members of roles name them.
    """
    channels = {
        f"{place.platform}-channel:{part}:{place.channel}" for part in place.workspace.split(".")
    }
    mine = {spelled(user), *groups, *channels}
    found = (name for name, role in settings.named.items() if mine & set(role.members))
    return next(found, settings.default)


def asks_for_groups(settings: RolesSettings, place: Place) -> bool:
    """Return True if roles or user groups of the server or workspace of a place have members."""
    servers = [part for part in place.workspace.split(".") if part]
    beginnings = tuple(f"{kind}{server}:" for kind in GROUP_KINDS for server in servers)
    return bool(beginnings) and any(each.startswith(beginnings) for each in settings.members())


def rights_of(settings: RolesSettings, role: str, place: Place, expand: Expand) -> Rights:
    """Return the rights of a role in a place."""
    levels = (_expanded(level, expand) for level in _levels(settings, role, place))
    return Rights(
        tuple(level for level in levels if level != RightsLevel(key=level.key, title=level.title)),
        role,
    )


def _levels(settings: RolesSettings, role: str, place: Place) -> Iterator[RightsLevel]:
    yield settings.everyone.level("roles.everyone", "this bot's configuration")
    for name in names_of(place):
        if name in settings.places:
            title = "this channel" if name.count(":") > 1 else "this server or workspace"
            title = "the configuration of direct messages" if name == DIRECT else title
            yield settings.places[name].level(f"roles.places.{name}", title)
    if role in settings.named:
        yield settings.named[role].level(f"roles.named.{role}", f"the role `{role}`")


def _expanded(level: RightsLevel, expand: Expand) -> RightsLevel:
    """Return a level whose lists of tools name tools instead of skills."""

    def tools(lists: Lists) -> Lists:
        return {
            kind: tuple(sorted(expand(names))) if kind == "tools" else names
            for kind, names in lists.items()
        }

    return replace(level, allowed=tools(level.allowed), denied=tools(level.denied))
