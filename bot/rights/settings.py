"""The settings under `roles:`, and the role and rights of a user in a place (pure)."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator, model_validator

from bot.agent.permissions import RuleValue, read_rules
from bot.conversations.access import is_private, spelled
from bot.errors import BadRequestError
from bot.platforms.catalog import PLATFORMS, TERMINAL, declared
from bot.rights.effective import GUEST, NOUNS, USER, Kind, Lists, Rights, RightsLevel
from bot.setting_types import LONGEST_WORK_MINUTES, MOST_COUNT, MOST_TOKENS
from bot.values import Identity, Place, Settings

_MEMBER = re.compile(
    r"(discord:[0-9]{5,21}|slack:[TE][A-Z0-9]{2,20}:[UW][A-Z0-9]{2,20}|terminal:\S.{0,63})"
    r"|(discord-role|discord-channel):[0-9]{5,20}:[0-9]{5,20}"
    r"|slack-group:[TE][A-Z0-9]{2,20}:S[A-Z0-9]{2,20}"
    r"|slack-channel:[TE][A-Z0-9]{2,20}:[CGD][A-Z0-9]{2,20}"
    # Platforms of one's own, and of tests.
    r"|(?!discord|slack|terminal)[a-z][a-z0-9_]{2,30}:\S{1,80}"
)
_ROLE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,29}")
#: Where a role may be used, beside servers and channels.
DIRECT = "direct"
#: The beginnings of members that are roles or user groups of a platform.
GROUP_KINDS = ("discord-role:", "slack-group:")
#: Names of tools, patterns and skills → names and patterns of tools.
Expand = Callable[[Iterable[str]], Collection[str]]


def _check_member(member: str) -> str:
    if not _MEMBER.fullmatch(member):
        raise ValueError(
            f"{member[:60]!r} names no member: write an account as in `access.admins`, or "
            "`discord-role:SERVER:ROLE`, `discord-channel:SERVER:CHANNEL`, "
            "`slack-group:WORKSPACE:GROUP` or `slack-channel:WORKSPACE:CHANNEL`"
        )
    return member


def _check_place(place: str) -> str:
    platform, *parts = place.split(":")
    forms = (declared(platform).server, declared(platform).channel)[: len(parts)]
    named = len(parts) in {1, 2} and all(parts) and all(map(re.fullmatch, forms, parts))
    if named or place in {DIRECT, TERMINAL}:
        return place
    names = " or ".join(f"`{each.section}:{each.server_name.upper()}`" for each in PLATFORMS)
    raise ValueError(
        f"{place[:60]!r} names no place: write {names}, with `:CHANNEL` for one channel, or "
        "`direct` for direct messages"
    )


Member = Annotated[str, AfterValidator(_check_member)]
PlaceName = Annotated[str, AfterValidator(_check_place)]


class LimitSettings(Settings):
    """Caps on runs that are lower than those of `subagents:`; absent: those."""

    max_concurrent_per_user: int | None = Field(None, ge=1, le=MOST_COUNT)
    """Runs of one user at once."""

    max_queued_per_user: int | None = Field(None, ge=0, le=MOST_COUNT)
    """Runs of one user that may wait for a slot."""

    max_token_budget: int | None = Field(None, ge=1000, le=MOST_TOKENS)
    """The most weighted tokens of a run."""

    max_timeout_minutes: float | None = Field(None, gt=0, le=LONGEST_WORK_MINUTES)
    """The most time of a run, in minutes."""

    max_tool_calls_per_run: int | None = Field(None, ge=1, le=MOST_COUNT)
    """Tool calls of one run."""

    max_depth: int | None = Field(None, ge=1, le=3)
    """The depth to which runs may nest."""


class RightsSettings(Settings):
    """The rights at one level: an absent list allows everything, an empty one nothing."""

    agents: tuple[str, ...] | None = None
    """Subagents that may be started; null: all, []: none."""

    models: tuple[str, ...] | None = None
    """Models that may answer, such as claude-haiku-* or openai/*; null: all, []: none."""

    tools: tuple[str, ...] | None = None
    """Tools that may be called, by name, pattern or skill; null: all, []: none."""

    skills: tuple[str, ...] | None = None
    """Agent Skills that may be read; null: all, []: none."""

    denied_agents: tuple[str, ...] = ()
    """Subagents that may not be started."""

    denied_models: tuple[str, ...] = ()
    """Models that may not answer."""

    denied_tools: tuple[str, ...] = ()
    """Tools that may not be called."""

    denied_skills: tuple[str, ...] = ()
    """Agent Skills that may not be read."""

    permissions: dict[str, RuleValue] = Field({})
    """Rules for calls, as in `permissions.rules`; they only restrict."""

    limits: LimitSettings = LimitSettings()
    """Caps on runs, lower than those of `subagents:`."""

    @field_validator("permissions")
    @classmethod
    def _can_be_read(cls, value: dict[str, str]) -> dict[str, str]:
        try:
            read_rules(value)
        except BadRequestError as error:
            raise ValueError(str(error)) from None
        return value

    def level(self, key: str, title: str) -> RightsLevel:
        """Return the level of these rights."""
        kinds: list[Kind] = list(NOUNS)
        return RightsLevel(
            key=key,
            title=title,
            allowed={kind: names for kind in kinds if (names := getattr(self, kind)) is not None},
            denied={kind: names for kind in kinds if (names := getattr(self, f"denied_{kind}"))},
            rules=read_rules(self.permissions),
            limits=self.limits.model_dump(exclude_none=True),
        )


class RoleSettings(RightsSettings):
    """One role: its members, and what they may use."""

    members: tuple[Member, ...] = ()
    """Accounts as in `access.admins`, or `discord-role:SERVER:ROLE`,
    `discord-channel:SERVER:CHANNEL`, `slack-group:WORKSPACE:GROUP`,
    `slack-channel:WORKSPACE:CHANNEL`. A role of a platform counts only in its server or workspace.
    """

    places: tuple[PlaceName, ...] | None = None
    """The places in which members may use the bot: `discord:SERVER`, `slack:WORKSPACE`, with
    `:CHANNEL` for one channel, `direct` for direct messages; null: everywhere, []: nowhere.
    """

    def admits(self, place: Place) -> bool:
        """Return True if members may use the bot in a place."""
        return self.places is None or bool(set(self.places) & set(names_of(place)))


class RolesSettings(Settings):
    """Everything under `roles:`."""

    default: str = USER
    """The role of users who are members of no other."""

    everyone: RightsSettings = RightsSettings()
    """The rights that nobody exceeds."""

    places: dict[PlaceName, RightsSettings] = Field({})
    """The rights in a server, workspace or channel, by its name: `discord:SERVER`,
    `slack:WORKSPACE`, or with `:CHANNEL`.
    """

    named: dict[str, RoleSettings] = Field({})
    """The roles by name: `user`, `guest`, and your own. A user has the first whose members include
    the user.
    """

    @model_validator(mode="after")
    def _names_roles(self) -> "RolesSettings":
        for name in self.named:
            if not _ROLE_NAME.fullmatch(name):
                raise ValueError(
                    f"{name[:60]!r} cannot be the name of a role: take a-z, 0-9, - and _, at most "
                    "30, beginning with a letter"
                )
        if self.default not in {USER, GUEST, *self.named}:
            raise ValueError(
                f"`roles.default` names {self.default[:60]!r}, which is no role; there are: "
                f"{', '.join(sorted({USER, GUEST, *self.named}))}"
            )
        return self

    def members(self) -> Iterator[str]:
        """Yield the members of all roles."""
        for role in self.named.values():
            yield from role.members


def names_of(place: Place) -> list[str]:
    """Return the names of a place in the configuration, from the widest to the narrowest."""
    if place.platform == TERMINAL:
        return [TERMINAL]
    # A workspace of an organisation is named `E….T…`.
    servers = [f"{place.platform}:{part}" for part in place.workspace.split(".") if part]
    channels = [f"{server}:{place.channel}" for server in servers if place.channel]
    return [*servers, *channels, *([DIRECT] if is_private(place) else [])]


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
    """Return the rights of a role in a place, whose lists name tools instead of their skills."""
    levels = [settings.everyone.level("roles.everyone", "this bot's configuration")]
    for name in names_of(place):
        if name in settings.places:
            title = "this channel" if name.count(":") > 1 else "this server or workspace"
            title = "the configuration of direct messages" if name == DIRECT else title
            levels.append(settings.places[name].level(f"roles.places.{name}", title))
    if role in settings.named:
        levels.append(settings.named[role].level(f"roles.named.{role}", f"the role `{role}`"))

    def tools(lists: Lists) -> Lists:
        return {
            kind: tuple(sorted(expand(names))) if kind == "tools" else names
            for kind, names in lists.items()
        }

    filled = (each for each in levels if each != RightsLevel(key=each.key, title=each.title))
    return Rights(
        tuple(
            replace(each, allowed=tools(each.allowed), denied=tools(each.denied)) for each in filled
        ),
        role,
    )
