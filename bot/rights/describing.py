"""Describes the rights of a role in a place, each value with its source (pure)."""

from collections.abc import Callable
from dataclasses import dataclass

from bot.agent.permissions import PermissionRule, PermissionSettings
from bot.rights.effective import NOUNS, USER
from bot.rights.settings import DIRECT, LimitSettings, RolesSettings, names_of, rights_of
from bot.subagents.limits import SubagentSettings
from bot.values import Place

#: Returns the source of a configuration key: a line of the file, a variable, or `default`.
Origin = Callable[[str], str]

DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsSources:
    """The settings that rights are made of, and the source of each key.

    Attributes:
        direct: Returns `direct_messages` of a platform.
    """

    roles: RolesSettings
    permissions: PermissionSettings
    subagents: SubagentSettings
    direct: Callable[[str], str]
    origin: Origin

    def described(self, role: str, place: Place) -> list[str]:
        """Return lines on the rights of a role in a place, Markdown."""
        rights = rights_of(self.roles, role, place, tuple)
        key = f"roles.named.{role}" if role in self.roles.named else "roles.default"
        why = "" if role in self.roles.named or role == USER else ", which has no rights of its own"
        lines = [f"- role: `{role}`{why} ({self._source(key)})"]
        named = self.roles.named.get(role)
        if named is not None and not named.admits(place):
            source = self._source(f"roles.named.{role}.places")
            lines.append(f"- may not use this bot here ({source})")
        for kind in NOUNS:
            allowed = [level for level in rights.levels if kind in level.allowed]
            denied = [level for level in rights.levels if kind in level.denied]
            if not allowed:
                lines.append(f"- {kind}: all ({DEFAULT})")
            for level in allowed:
                names = ", ".join(f"`{name}`" for name in level.allowed[kind])
                source = self._source(f"{level.key}.{kind}")
                lines.append(f"- {kind}: {f'only {names}' if names else 'none'} ({source})")
            for level in denied:
                names = ", ".join(f"`{name}`" for name in level.denied[kind])
                source = self._source(f"{level.key}.denied_{kind}")
                lines.append(f"- {kind}: not {names} ({source})")
        source = self._source("permissions.default")
        lines.append(f"- calls that change something: {self.permissions.default} ({source})")
        rules = [
            ("permissions.rules", self.permissions.permissions.configured),
            *((f"{level.key}.permissions", level.rules) for level in rights.levels),
        ]
        for above, each in rules:
            lines += [f"- rule: `{rule}` ({self._source_of(above, rule)})" for rule in each.rules]
        for name in LimitSettings.model_fields:
            value, key = rights.cap(name, getattr(self.subagents, name), f"subagents.{name}")
            number = int(value) if float(value).is_integer() else value
            lines.append(f"- {name}: {number:,} ({self._source(key)})")
        if DIRECT in names_of(place):
            source = self._source(f"{place.platform}.direct_messages")
            lines.append(f"- direct messages: {self.direct(place.platform)} ({source})")
        return lines

    def _source_of(self, above: str, rule: PermissionRule) -> str:
        """Return the source of a rule below a key; `shell` may be written as `shell:*`."""
        keys = [f"{above}.{name}" for name in (rule.key, f"{rule.tool}:{rule.subject}")]
        known = (key for key in keys if self.origin(key) != DEFAULT)
        return self._source(next(known, keys[0]))

    def _source(self, key: str) -> str:
        return f"`{key}`, {self.origin(key)}"
