"""What others call our tools: agents written for Claude Code load as they are (pure)."""

import re
from collections.abc import Callable, Iterable, Mapping

#: Its tools, and ours that do the same.
_OURS: Mapping[str, str] = {
    "bash": "shell",
    "edit": "file_edit",
    "glob": "glob",
    "grep": "grep",
    "ls": "file_list",
    "multiedit": "file_edit",
    "read": "file_read",
    "todoread": "todo_read",
    "todowrite": "todo_write",
    "webfetch": "web_fetch",
    "websearch": "web_search",
    "write": "file_write",
}
#: `Bash(git *)` is the tool with a pattern, which our permissions say otherwise.
_WITH_PATTERN = re.compile(r"(\w+)\(.*\)\Z", re.DOTALL)


def ours(name: str) -> str:
    """Return what we call a tool."""
    match = _WITH_PATTERN.match(name.strip())
    bare = match[1] if match else name.strip()
    return _OURS.get(bare.lower(), bare)


def split_known(
    names: Iterable[str], is_known: Callable[[str], bool]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tools that we have, by our names, and those that we lack, by theirs."""
    given = [name.strip() for name in names if name.strip()]
    known = dict.fromkeys(ours(name) for name in given if is_known(ours(name)))
    return tuple(known), tuple(name for name in given if not is_known(ours(name)))
