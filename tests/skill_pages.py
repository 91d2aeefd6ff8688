"""`python -m tests.skill_pages`: write docs/skills/*.md, a page for each skill of the bot.

The part above the mark is written by hand and stays; the part below is made from the skill: its
tools, the sections of its settings, and its guide for the main agent.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from skills import base, discovery
from tests.house import ROOT

FOLDER = ROOT / "docs/skills"
MARK = "<!-- The rest is made by `python -m tests.skill_pages`. -->"

#: What each reach means, in a few words.
REACHES = {
    "READS_HERE": "reads here",
    "READS_BEYOND": "reads elsewhere",
    "CHANGES_OWN": "changes, and can be undone",
    "DESTROYS": "changes, and may not be undone",
    "ACTS_BEYOND": "acts elsewhere",
}


@dataclass(frozen=True)
class DecoratedTool:
    """A function below `@tool(...)`, with the keywords of its decorator."""

    name: str
    about: str
    keywords: dict[str, ast.expr]

    def is_set(self, keyword: str) -> bool:
        """Return True if the decorator has a keyword with the value `True`."""
        found = self.keywords.get(keyword)
        return isinstance(found, ast.Constant) and found.value is True


def tools_in(path: Path) -> Iterator[DecoratedTool]:
    """Yield the tools of a module.

    A decorator may have a name of its own, there or in `skills.base`: `reads = tool(...)`,
    `writes = partial(tool, ...)`.
    """
    nodes = list(ast.walk(_parsed(path)))
    named: dict[str, dict[str, ast.expr]] = {"tool": {}}
    shared = Path(base.__file__)
    for node in [*_parsed(shared).body * (path != shared), *nodes]:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        made = re.match(r"(?:partial\()?(\w+)[,(]", ast.unparse(node.value))
        if made and made[1] in named:
            (name,) = (ast.unparse(target) for target in node.targets)
            assert name not in named, f"{path} names two decorators {name}"
            named[name] = named[made[1]] | _keywords(node.value)
    for node in nodes:
        if not isinstance(node, ast.AsyncFunctionDef):
            continue
        for mark in node.decorator_list:
            name = ast.unparse(mark.func if isinstance(mark, ast.Call) else mark)
            if name in named:
                about = (ast.get_docstring(node) or "").partition("\n")[0]
                yield DecoratedTool(node.name, about, named[name] | _keywords(mark))


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _keywords(call: ast.expr) -> dict[str, ast.expr]:
    words = call.keywords if isinstance(call, ast.Call) else []
    return {word.arg or "": word.value for word in words}


def lines(module: str) -> Iterator[str]:
    """Yield the lines that are made from a skill."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    # Tools of runs may have the same names as the main agent's, which come last.
    source = Path(spec.origin).read_text("utf-8")
    tools = {each.name: each for each in tools_in(Path(spec.origin))}
    if tools:
        yield from ("## Tools", "", "| tool | does | reach | offered |", "|---|---|---|---|")
        for name, each in sorted(tools.items()):
            reach = REACHES[ast.unparse(each.keywords["reach"]).removeprefix("Reach.")]
            offered = "to the main agent" if each.is_set("main_agent_only") else "to all"
            offered = "to runs" if f"run_tools=({name},)" in source else offered
            asks = "; the user is asked first" if each.is_set("needs_confirmation") else ""
            yield f"| `{name}` | {each.about} | {reach} | {offered}{asks} |"
        yield ""
    if sections := discovery.settings_of(module):
        yield from ("## Settings", "", "In [config.example.yaml](../../config.example.yaml):", "")
        for section in sections:
            keys = ", ".join(f"`{key}`" for key in section.model_fields)
            yield f"- `{section.section}`: {section.about} Keys: {keys}."
        yield ""
    if guide := getattr(import_module(module), "GUIDE", ""):
        yield from ("## In the prompt of the main agent", "", "```text", *guide.splitlines(), "```")
        yield ""


def pages() -> dict[Path, str]:
    """Return the text of each page, with what is written by hand in the present one."""
    found = {}
    for module in discovery.modules():
        name = module.removesuffix(".skill").rpartition(".")[2]
        path = FOLDER / f"{name}.md"
        first = f"# {name}\n\n{import_module(module).__doc__}\n"
        text = path.read_text("utf-8") if path.exists() else first
        made = "\n".join(lines(module)).rstrip()
        found[path] = f"{text.partition(MARK)[0].rstrip()}\n\n{MARK}\n\n{made}".rstrip() + "\n"
    return found


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for page, content in pages().items():
        page.write_text(content, "utf-8")
