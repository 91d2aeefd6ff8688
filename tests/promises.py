"""`python -m tests.promises`: write docs/promises.md from the names of stories and contracts."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house import ROOT, Function

PAGE = ROOT / "docs/promises.md"
FOLDERS = {"stories": "The whole bot", "contracts": "The ports"}
HEAD = """\
# What the bot promises

Made by `python -m tests.promises` from the names of the tests: each line is one test. The stories
play the whole bot; a contract holds for each implementation of a port.
"""


def names_in(path: Path) -> Iterator[str]:
    """Yield the names of the tests of a file, in their order."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, Function) and node.name.startswith("test_"):
            yield node.name


def lines() -> Iterator[str]:
    """Yield the lines of the page."""
    for folder, title in FOLDERS.items():
        yield f"\n## {title}\n"
        for path in sorted((ROOT / "tests" / folder).glob("test_*.py")):
            yield f"\n### {_as_words(path.stem)}\n\n"
            yield from (f"- {_as_words(name)}\n" for name in names_in(path))


def _as_words(name: str) -> str:
    words = name.removeprefix("test_").replace("_", " ")
    return words[:1].upper() + words[1:]


def page() -> str:
    """Return the text of the page."""
    return HEAD + "".join(lines())


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
