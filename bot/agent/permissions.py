"""Decides by rules if a tool call is allowed, needs permission, or is denied (pure).

A rule names a tool, or a tool and a subject: `file_write: ask`, `"shell:git push*": deny`. Within
one list the last matching rule counts. Of several lists (the configuration's, the caller's, the
agent's own) the strictest decision counts, so an agent never gets more rights than its caller.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from bot.agent.sanitizer import one_line
from bot.errors import BadRequestError
from bot.values import Settings

MOST_RULES = 200
MOST_PATTERN = 300
#: Longest subject or rule shown in a message, in characters.
MOST_SHOWN = 120


class Decision(StrEnum):
    """The decision about a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


#: An `ask` with the role that decides.
_ASKS = re.compile(r"ask: ?[a-z][a-z0-9_-]{0,29}")
_STRICTNESS = {Decision.ALLOW: 0, Decision.ASK: 1, Decision.DENY: 2}


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """One rule of a list.

    Attributes:
        tool: A pattern for the name of the tool; `*` stands for any text.
        subject: A pattern for the subject of the call (a path, a command, an address).
        approver: The role that is asked; empty for the owner of the call.
    """

    tool: str
    subject: str
    decision: Decision
    approver: str = ""

    def matches(self, tool: str, subject: str) -> bool:
        """Return True if this rule applies to a call."""
        return _fits(tool, self.tool) and _fits(subject, self.subject)

    @property
    def value(self) -> str:
        """The decision as it is written, with the role that is asked."""
        return f"{self.decision}:{self.approver}" if self.approver else str(self.decision)

    @property
    def key(self) -> str:
        """The tool, with a pattern, as it is written."""
        return self.tool if self.subject == "*" else f"{self.tool}:{self.subject}"

    def __str__(self) -> str:
        return f"{self.key}: {self.value}"


@dataclass(frozen=True, slots=True)
class PermissionRules:
    """A list of rules, of which the last matching one counts."""

    rules: tuple[PermissionRule, ...] = ()

    def find(self, tool: str, subject: str) -> PermissionRule | None:
        """Return the rule that counts for a call; `None` if no rule matches."""
        return next((rule for rule in reversed(self.rules) if rule.matches(tool, subject)), None)

    @property
    def as_given(self) -> dict[str, str]:
        """The rules in the form that `read_rules` takes.

        Of rules about the same, only the last one can count; it stands where it was given.
        """
        given: dict[str, str] = {}
        for rule in self.rules:
            given.pop(rule.key, None)
            given[rule.key] = rule.value
        return given


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a call, and its reason.

    Attributes:
        reason: A clause for a message; empty if the call is allowed.
        rule: The rule that asks, as it is spelled; empty for another reason.
        approver: The role that is asked; empty for the owner of the call.
    """

    decision: Decision
    reason: str = ""
    rule: str = ""
    approver: str = ""

    @classmethod
    def of(cls, rule: PermissionRule, reason: str) -> "Verdict":
        """Return the decision of a rule."""
        spelled = str(rule) if rule.decision is Decision.ASK else ""
        return cls(rule.decision, reason, spelled, rule.approver)


_ALLOWED = Verdict(Decision.ALLOW)


@dataclass(frozen=True, slots=True)
class Permissions:
    """The lists of rules that apply to one agent.

    Attributes:
        configured: The rules of the configuration.
        further: The rules of each caller and of the agent itself; they restrict and never grant.
        default: The decision about a call that changes something and matches no configured rule.
    """

    configured: PermissionRules = PermissionRules()
    further: tuple[PermissionRules, ...] = ()
    default: Decision = Decision.ALLOW

    def within(self, rules: PermissionRules) -> "Permissions":
        """Return these permissions, further restricted by the rules of a subagent."""
        return replace(self, further=(*self.further, rules))

    def offers(self, tool: str) -> bool:
        """Return True unless every call of a tool is denied."""
        for rules in (self.configured, *self.further):
            about = (rule for rule in reversed(rules.rules) if _fits(tool, rule.tool))
            last = takewhile(lambda rule: rule.decision is Decision.DENY, about)
            if any(rule.subject == "*" for rule in last):
                return False
        return True

    def decide(
        self,
        tool: str,
        subjects: Sequence[str],
        *,
        harmless: bool,
        granted: Collection[str] = (),
    ) -> Verdict:
        """Return the decision about a call.

        Args:
            tool: The name of the tool.
            subjects: The subjects of the call; an empty text stands for no particular subject.
            harmless: Whether the call changes nothing; it is then allowed unless a rule matches.
            granted: The rules, as they are spelled, that no longer ask.
        """
        verdicts: list[Verdict] = []
        for subject in subjects:
            on = f"{tool} on {_quoted(subject)}" if subject else tool
            first = self.configured.find(tool, subject)
            verdicts += [
                Verdict.of(rule, f"the rule {_quoted(str(rule))} is about {on}")
                for rule in (first, *(rules.find(tool, subject) for rules in self.further))
                if rule is not None
            ]
            if first is None and not harmless:
                rule = PermissionRule(tool, "*", self.default)
                verdicts.append(Verdict.of(rule, f"{on} changes something"))
        return strictest(each for each in verdicts if each.rule not in granted)


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the strictest of some verdicts: deny beats ask beats allow, which none means."""
    every = list(verdicts)
    found = max(every, key=lambda each: _STRICTNESS[each.decision], default=_ALLOWED)
    if found.decision is not Decision.ASK:
        return found if found.decision is Decision.DENY else _ALLOWED
    to_roles = {each.approver: each for each in every if each.approver}
    if len(to_roles) > 1:
        names = " and ".join(f"`{name}`" for name in sorted(to_roles))
        return Verdict(Decision.DENY, f"rules give the decision to different roles: {names}")
    return next(iter(to_roles.values()), found)


def _quoted(text: str) -> str:
    """Return text that a model may have written, quoted so that it cannot pass for ours."""
    return f"`{one_line(text, MOST_SHOWN).replace('`', 'ˋ')}`"


def _fits(text: str, pattern: str) -> bool:
    """Return True if a text matches a pattern in which only `*` and `?` are special."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


#: The permissions without any rules.
ALL_ALLOWED = Permissions()


def read_rules(given: object) -> PermissionRules:
    """Return the rules in `{tool or tool:pattern: allow | ask | deny}`, or in a list of such.

    Raises:
        BadRequestError: The rules are invalid; the text names the error.
    """
    if given is None:
        return PermissionRules()
    parts = given if isinstance(given, list) else [given]
    sections = [part for part in parts if isinstance(part, Mapping)]
    if len(sections) < len(parts):
        raise BadRequestError(
            'permissions must be lines such as `file_write: ask` or `"shell:git *": allow`'
        )
    rules: list[PermissionRule] = []
    for key, value in (pair for part in sections for pair in part.items()):
        tool, colon, subject = str(key).partition(":")
        if not tool.strip() or (colon and not subject.strip()) or len(str(key)) > MOST_PATTERN:
            raise BadRequestError(
                f"the permission {one_line(str(key), 60)!r} must name a tool, or a tool and a "
                "pattern as in `shell:git *`"
            )
        decision, asks, approver = spelled_rule(value).partition(":")
        if decision not in {*Decision} or (asks and not _ASKS.fullmatch(f"{decision}:{approver}")):
            raise BadRequestError(
                f"the permission {one_line(str(key), 60)!r} must be allow, ask or deny, or "
                "`ask: ROLE` for a role that decides"
            )
        rules.append(
            PermissionRule(
                tool.strip(), subject.strip() or "*", Decision(decision), approver.strip()
            )
        )
    if len(rules) > MOST_RULES:
        raise BadRequestError(f"there may be {MOST_RULES} permissions, and there are {len(rules)}")
    return PermissionRules(tuple(rules))


def spelled_rule(value: object) -> str:
    """Return the value of a rule as text: `{ask: leads}` is `ask:leads`."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((decision, role),) = value.items()
        return f"{decision}:{str(role).strip()}"
    return str(value)


#: The value of a rule in the configuration.
RuleValue = Annotated[str, BeforeValidator(spelled_rule)]


class PermissionSettings(Settings):
    """Everything under `permissions:`."""

    default: Literal["allow", "ask", "deny"] = "allow"
    """The decision on a call that changes something and that no rule is about: allow, ask or deny.
    What only reads is allowed.
    """

    rules: dict[str, RuleValue] = Field({})
    """tool, or tool:pattern, and allow, ask or deny, or {ask: ROLE} for a role that decides; the
    last that matches counts. Agents and callers can only take away: docs/agents.md.
    """

    @field_validator("rules")
    @classmethod
    def _can_be_read(cls, value: dict[str, str]) -> dict[str, str]:
        try:
            read_rules(value)
        except BadRequestError as error:
            raise ValueError(str(error)) from None
        return value

    @property
    def permissions(self) -> Permissions:
        """The permissions of the configuration."""
        return Permissions(read_rules(self.rules), default=Decision(self.default))
