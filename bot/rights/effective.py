"""Computes the effective rights of a user in a place: each level only takes away (pure).

The levels are, in this order: everyone, the server or workspace, the channel, the role. The fixed
rules before them and the agent's file and the request after them restrict further where they apply.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from bot.agent.permissions import Decision, PermissionRules, Verdict, read_rules, strictest
from bot.agent.sanitizer import one_line
from bot.subagents.limits import SubagentSettings
from bot.values import Identity, Json, Place

#: The kinds of things that levels allow and deny, and their names in a sentence.
Kind = Literal["agents", "models", "tools", "skills"]
NOUNS: Mapping[Kind, str] = {
    "agents": "the agent",
    "models": "the model",
    "tools": "the tool",
    "skills": "the skill",
}
#: The role of users who are members of no other, and a role of less rights, unless configured.
USER, GUEST = "user", "guest"
#: Names and patterns by kind.
Lists = Mapping[Kind, tuple[str, ...]]
WHOM = "an operator of this bot can change that"


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsLevel:
    """One level of the way on which rights shrink.

    Attributes:
        key: The configuration key of the level, such as `roles.named.guest`.
        title: The level in a sentence, such as “the role `guest`”.
        allowed: Names and patterns by kind: only these; a kind that is absent allows all.
        denied: Names and patterns by kind.
        rules: The permission rules.
        limits: Caps by the name of the setting in `subagents`.
    """

    key: str
    title: str
    allowed: Lists = field(default_factory=dict)
    denied: Lists = field(default_factory=dict)
    rules: PermissionRules = field(default_factory=PermissionRules)
    limits: Mapping[str, float] = field(default_factory=dict)

    def admits(self, kind: Kind, names: Iterable[str]) -> bool:
        """Return True if the level allows a thing with these names, and does not deny it."""
        known = tuple(names)
        if any_fits(known, self.denied.get(kind, ())):
            return False
        return kind not in self.allowed or any_fits(known, self.allowed[kind])

    @property
    def as_json(self) -> Json:
        """The level as it is stored with a run."""
        return {
            "key": self.key,
            "title": self.title,
            "allowed": {kind: list(names) for kind, names in self.allowed.items()},
            "denied": {kind: list(names) for kind, names in self.denied.items()},
            "rules": self.rules.as_given,
            "limits": dict(self.limits),
        }

    @classmethod
    def of_json(cls, given: Json) -> "RightsLevel":
        """Return a stored level."""
        lists: list[dict[Kind, tuple[str, ...]]] = [
            {kind: tuple(names) for kind, names in given[name].items()}
            for name in ("allowed", "denied")
        ]
        return cls(
            key=given["key"],
            title=given["title"],
            allowed=lists[0],
            denied=lists[1],
            rules=read_rules(given["rules"]),
            limits=given["limits"],
        )


async def _none() -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights that apply: what every level allows, less what any level denies.

    Attributes:
        levels: The levels, from the widest to the narrowest.
        role: The name of the user's role; empty for none.
        always: Returns the rules, as they are spelled, that no longer ask the user. It reads the
            database, so it is called for a decision that such a rule could change.
    """

    levels: tuple[RightsLevel, ...] = ()
    role: str = ""
    always: Callable[[], Awaitable[frozenset[str]]] = field(default=_none, compare=False)

    def within(self, other: "Rights") -> "Rights":
        """Return rights that both of these grant."""
        known = {level.key: level for level in self.levels}
        further = (level for level in other.levels if known.get(level.key) != level)
        return Rights((*self.levels, *further), self.role, other.always)

    def refusal(self, kind: Kind, *names: str) -> str:
        """Return the reason for which a thing may not be used, a clause; empty if it may.

        Args:
            kind: The kind of the thing.
            names: Its names: the first is shown, and any may be listed.
        """
        for level in self.levels:
            if not level.admits(kind, names):
                shown = one_line(names[0], 60).replace("`", "ˋ")
                return f"{level.title} does not include {NOUNS[kind]} `{shown}`; {WHOM}"
        return ""

    def decide(
        self, tool: str, subjects: Sequence[str], *, granted: Collection[str] = ()
    ) -> Verdict:
        """Return the strictest decision of the levels about a call: deny beats ask beats allow.

        Args:
            tool: The name of the tool.
            subjects: The subjects of the call.
            granted: The rules, as they are spelled, that no longer ask.
        """
        if refused := self.refusal("tools", tool):
            return Verdict(Decision.DENY, refused)
        verdicts = [
            Verdict.of(rule, f"the rule `{rule}` of {level.title} is about {tool}")
            for level in self.levels
            for subject in subjects
            if (rule := level.rules.find(tool, subject)) is not None
        ]
        return strictest(each for each in verdicts if each.rule not in granted)

    def cap(self, name: str, value: float, source: str = "") -> tuple[float, str]:
        """Return the smallest cap on a setting and the key of its level; `source` if unchanged."""
        found = (value, source)
        for level in self.levels:
            if level.limits.get(name, found[0]) < found[0]:
                found = (level.limits[name], f"{level.key}.limits.{name}")
        return found

    def narrowed(self, settings: SubagentSettings) -> SubagentSettings:
        """Return the settings of subagents with the smallest cap of each limit."""
        names = {name for level in self.levels for name in level.limits}
        update: Json = {}
        for name in names:
            whole = getattr(settings, name)
            cap, _ = self.cap(name, whole)
            update[name] = type(whole)(cap)
        defaults = {"default_token_budget": "max_token_budget"}
        defaults["default_timeout_minutes"] = "max_timeout_minutes"
        for default, most in defaults.items():
            if most in update:
                update[default] = min(getattr(settings, default), update[most])
        return settings.model_copy(update=update) if update else settings

    @property
    def named_models(self) -> tuple[str, ...]:
        """The models that levels allow by name, in their order."""
        lists = (level.allowed.get("models", ()) for level in self.levels)
        return tuple(name for names in lists for name in names)

    @property
    def as_json(self) -> Json:
        """The rights as they are stored with a run."""
        return {"role": self.role, "levels": [level.as_json for level in self.levels]}

    @classmethod
    def of_json(cls, given: Json | None) -> "Rights":
        """Return stored rights; unlimited ones for `None`."""
        if given is None:
            return UNLIMITED_RIGHTS
        levels = tuple(RightsLevel.of_json(level) for level in given["levels"])
        return cls(levels, given["role"])


def model_names(provider: str, model: str) -> tuple[str, ...]:
    """Return the names under which lists may name a model: in full, its own, and its family."""
    return (f"{provider}/{model}", model, *model.split("-")[1:2])


UNLIMITED_RIGHTS = Rights()
#: Returns the rights of a user in a place, as they are now.
RightsOf = Callable[[Identity, Place], Awaitable[Rights]]


async def unlimited(_: Identity, __: Place) -> Rights:
    """Return rights without any level, where no roles are configured."""
    return UNLIMITED_RIGHTS


def any_fits(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Return True if one of the names fits one of the patterns, upper and lower case alike."""
    return any(
        fnmatchcase(name.lower(), pattern.lower().replace("[", "[[]"))
        for pattern in patterns
        for name in names
    )
