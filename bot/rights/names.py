"""Finds names under `roles:` that denote nothing, with the names that were probably meant."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches

from bot.agent.permissions import read_rules
from bot.rights.effective import GUEST, NOUNS, USER, Kind, any_fits, model_names
from bot.rights.settings import RightsSettings, RolesSettings


def levels_of(roles: RolesSettings) -> dict[str, RightsSettings]:
    """Return the levels of rights by their keys: of everyone, of places, and of roles."""
    return {
        "roles.everyone": roles.everyone,
        **{f"roles.places.{name}": level for name, level in roles.places.items()},
        **{f"roles.named.{name}": role for name, role in roles.named.items()},
    }


def known_names(
    models: Iterable[tuple[str, str]],
    agents: Collection[str],
    skills: Collection[str],
    tools: Collection[str],
) -> Mapping[Kind, Collection[str]]:
    """Return the names that lists of rights may have, by their kind.

    Args:
        models: The provider and name of each model.
        agents: The names of agents.
        skills: The names of Agent Skills.
        tools: The names of tools and of their skills.
    """
    named = [name for provider, model in models for name in model_names(provider, model)]
    return {"agents": agents, "models": named, "skills": skills, "tools": tools}


def unknown_names(
    roles: RolesSettings, known: Mapping[Kind, Collection[str]], is_tool: Callable[[str], bool]
) -> Iterator[str]:
    """Yield a sentence for each name in a list of rights that denotes nothing.

    Args:
        roles: The settings.
        known: The names that exist now, by their kind.
        is_tool: Returns True for the name of a tool or skill that is there, or that a server may
            bring; a pattern for tools may fit such a name later.
    """
    for key, level in levels_of(roles).items():
        for kind in NOUNS:
            for field in (kind, f"denied_{kind}"):
                for name in getattr(level, field) or ():
                    may_come = kind == "tools" and (is_tool(name) or "*" in name or "?" in name)
                    if not may_come and not any_fits(list(known[kind]), [name]):
                        what = NOUNS[kind].removeprefix("the ")
                        meant = _meant(name, known[kind])
                        yield f"{key}.{field} names `{name}`, and there is no such {what}{meant}"


def unknown_approvers(rules: Mapping[str, str], roles: RolesSettings) -> Iterator[str]:
    """Yield a sentence for each rule of the configuration that asks a role that is not there.

    Args:
        rules: `permissions.rules`.
        roles: The settings, whose levels have rules as well.
    """
    lists = {
        "permissions.rules": rules,
        **{f"{key}.permissions": level.permissions for key, level in levels_of(roles).items()},
    }
    for key, each in lists.items():
        for name, value in each.items():
            (rule,) = read_rules({name: value}).rules
            if told := unknown_role(f"{key}.{name}", rule.approver, roles):
                yield told


def unknown_role(owner: str, name: str, roles: RolesSettings) -> str:
    """Return a sentence about a role that a rule asks; empty if it exists.

    Args:
        owner: The owner of the rule, at the beginning of the sentence.
        name: The role; empty for none.
        roles: The settings.
    """
    known = {USER, GUEST, *roles.named}
    if name in {"", *known}:
        return ""
    return f"{owner} asks the role `{name}`, which `roles.named` does not have{_meant(name, known)}"


def _meant(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name.lower(), known, 1, 0.6)
    return f": did you mean `{near[0]}`?" if near else "."
