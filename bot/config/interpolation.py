"""Expands `${ENV}` and `${ENV:-default}` in the configuration; reads keys from the environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: A key as its parts, such as `("access", "admins", 0)`.
Key = tuple[str | int, ...]

#: The possible contents of a configuration file: sections, lists and plain values.
Tree = dict[str, "Tree"] | list["Tree"] | str | int | float | bool | None

OVERRIDE_PREFIX = "RETINUE__"

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<inside>[^}]*)(?P<end>\}?)")
_INSIDE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-.*)?", re.DOTALL)


@dataclass(slots=True)
class Expansion:
    """Expands environment variables in texts, and records them.

    Attributes:
        problems: The problem of each key.
        used: The expanded variables. Their values may be secret anywhere.
    """

    environ: Mapping[str, str]
    problems: dict[Key, str] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)

    def tree(self, value: Tree, path: Key = ()) -> Tree:
        """Return `value` with its texts expanded; omit dictionary entries whose expansion fails."""
        if isinstance(value, dict):
            parts = {key: self.tree(part, (*path, key)) for key, part in value.items()}
            return {key: part for key, part in parts.items() if (*path, key) not in self.problems}
        if isinstance(value, list):
            return [self.tree(part, (*path, index)) for index, part in enumerate(value)]
        return self.text(value, path) if isinstance(value, str) else value

    def text(self, text: str, path: Key = ()) -> str:
        """Return `text` with its variables expanded; their values are not expanded again."""

        def fill(match: re.Match[str]) -> str:
            if match["inside"] is None:
                return "${"
            reference = _INSIDE.fullmatch(match["inside"])
            if not match["end"] or reference is None:
                self.problems[path] = (
                    "`${` begins the name of a variable, like `${NAME}` or `${NAME:-default}`; "
                    "write `$${` for these two characters themselves"
                )
                return ""
            name, default = reference["name"], reference["default"]
            value = self.environ.get(name)
            if value is None and default is None:
                self.problems[path] = (
                    f"the environment variable {name} is not set; set it, or give a default: "
                    f"`${{{name}:-default}}`"
                )
                return ""
            if not value and default is not None:
                return default.removeprefix(":-")
            self.used[name] = value or ""
            return value or ""

        return _REFERENCE.sub(fill, text)


def written(text: str) -> tuple[str, bool]:
    """Return the literal part of a text with its defaults, and True if variables supply the rest.

    It is True if the text has at least one variable, and none with a non-empty default.
    """
    references = [match["inside"] for match in _REFERENCE.finditer(text)]
    defaults = [each.partition(":-")[2] for each in references if each is not None]
    literal = _REFERENCE.sub(
        lambda match: (
            "${" if match["inside"] is None else match["inside"].partition(":-")[2] or " "
        ),
        text,
    )
    return literal, bool(defaults) and not any(defaults)


def overrides(environ: Mapping[str, str]) -> dict[str, Key]:
    """Return the environment variables that set keys: `RETINUE__SUBAGENTS__MAX_DEPTH` and so on."""
    return {
        name: tuple(part.lower() for part in name.removeprefix(OVERRIDE_PREFIX).split("__"))
        for name in sorted(environ)
        if name.startswith(OVERRIDE_PREFIX)
    }


def put(tree: dict[str, Tree], path: Key, value: Tree) -> None:
    """Set one key, creating the sections above it; do nothing if another value is in the way."""
    section = section_at(tree, path[:-1], make=True)
    if section is not None:
        section[str(path[-1])] = value


def section_at(tree: dict[str, Tree], path: Key, *, make: bool = False) -> dict[str, Tree] | None:
    """Return a section of the tree, or `None` if it is missing or not a section.

    Args:
        tree: The tree to search.
        path: The section's key.
        make: Whether to create missing or empty sections.
    """
    for part in map(str, path):
        below = tree.get(part)
        if below is None and make:
            below = tree[part] = {}
        if not isinstance(below, dict):
            return None
        tree = below
    return tree
