"""Maps foreign tool names to ours: agents written for Claude Code load unchanged (pure)."""

import re
from collections.abc import Callable, Iterable, Mapping

#: Claude Code tool name in lower case → our tool.
_OURS: Mapping[str, str] = {
    "agent": "delegate_to_subagent",
    "askuserquestion": "ask_user",
    "bash": "shell",
    "edit": "file_edit",
    "glob": "glob",
    "grep": "grep",
    "ls": "file_list",
    "multiedit": "file_edit",
    "notebookedit": "file_edit",
    "notebookread": "file_read",
    "read": "file_read",
    "skill": "skill_read",
    "task": "delegate_to_subagent",
    "taskcreate": "todo_write",
    "taskget": "todo_read",
    "tasklist": "todo_read",
    "taskupdate": "todo_write",
    "todoread": "todo_read",
    "todowrite": "todo_write",
    "webfetch": "web_fetch",
    "websearch": "web_search",
    "write": "file_write",
}
#: A tool with a pattern, such as `Bash(git *)`; our permissions write patterns differently.
_WITH_PATTERN = re.compile(r"(\w+)\(.*\)\Z", re.DOTALL)


def ours(name: str) -> str:
    """Return our name for a tool."""
    match = _WITH_PATTERN.match(name.strip())
    bare = match[1] if match else name.strip()
    return _OURS.get(bare.lower(), bare)


def pattern_in(name: str) -> str:
    """Return the pattern in brackets after a tool's name; empty for none or `*`."""
    _, _, pattern = name.strip().partition("(")
    inner = pattern.removesuffix(")").strip() if _WITH_PATTERN.match(name.strip()) else ""
    return "" if inner == "*" else inner


def split_known(
    names: Iterable[str], is_known: Callable[[str], bool]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the known tools under our names, and the unknown tools under the given names."""
    given = [name.strip() for name in names if name.strip()]
    known = dict.fromkeys(ours(name) for name in given if is_known(ours(name)))
    return tuple(known), tuple(name for name in given if not is_known(ours(name)))
