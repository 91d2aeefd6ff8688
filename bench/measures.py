"""`python -m bench.measures`: print the measures of the source code.

Counts `bot`, `db`, `migrations` and `skills` of a folder (this checkout unless one is named), so
that two states of the code are measured by the same rules.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.house import INSIDE, ROOT, Function
from tests.house_rules import RIDDLE, TWINS

#: Tokens that do not make a line a line of code.
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class File:
    """A source file."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def documented(self) -> list[_DOCUMENTED]:
        """The nodes that may have a docstring."""
        return [node for node in ast.walk(self.tree) if isinstance(node, _DOCUMENTED)]

    @cached_property
    def names(self) -> Counter[str]:
        """How often each name is used: as a name, an attribute or an imported name."""
        found: Counter[str] = Counter()
        for node in ast.walk(self.tree):
            match node:
                case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                    found[name] += 1
                case ast.ImportFrom():
                    found.update(alias.name for alias in node.names)
        return found

    @cached_property
    def functions(self) -> list[tuple[Function, ast.AST]]:
        """Return the functions of the file, each with the node that contains it."""
        return [
            (child, parent)
            for parent in ast.walk(self.tree)
            for child in ast.iter_child_nodes(parent)
            if isinstance(child, Function)
        ]

    def lines_of_code(self) -> int:
        """Count the lines that hold code: no blank lines, comments or docstrings."""
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in _NO_CODE:
                lines.update(range(token.start[0], token.end[0] + 1))
        return len(lines - self._docstring_lines())

    def _docstring_lines(self) -> set[int]:
        lines: set[int] = set()
        for node in self.documented:
            if node.body and ast.get_docstring(node, clean=False) is not None:
                text = node.body[0]
                lines.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
        return lines


def read(root: Path) -> list[File]:
    """Read the source files below a folder."""
    paths = (path for top in INSIDE for path in sorted((root / top).rglob("*.py")))
    return [File(path.relative_to(root), path.read_text("utf-8")) for path in paths]


def is_measured(function: Function, parent: ast.AST) -> bool:
    """Whether only our own code calls a function: no `__enter__`, no decorator, no protocol."""
    return not (
        function.name.startswith("__") or function.decorator_list or _is_abstract(function, parent)
    )


def _is_abstract(function: Function, parent: ast.AST) -> bool:
    """Whether this is a method of a protocol."""
    bases = parent.bases if isinstance(parent, ast.ClassDef) else []
    return any(ast.unparse(base).partition("[")[0] == "Protocol" for base in bases)


def one_use(files: list[File]) -> Iterator[tuple[File, Function]]:
    """Yield the private, nested and one-module public functions that are used in one place."""
    total: Counter[str] = Counter()
    homes: dict[str, int] = defaultdict(int)
    for file in files:
        total += file.names
        for name in file.names:
            homes[name] += 1
    for file in files:
        for function, parent in file.functions:
            name = function.name
            if not is_measured(function, parent):
                continue
            inside = isinstance(parent, Function) or name.startswith("_")
            uses = file.names[name] if inside else total[name]
            if uses == 1 and file.names[name] == 1:
                yield file, function


def several_meanings(files: list[File]) -> dict[str, list[str]]:
    """Return the class names that several modules define, twins of adapters left out."""
    homes: dict[str, list[str]] = defaultdict(list)
    for file in files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].append(file.path.as_posix())
    return {name: paths for name, paths in homes.items() if len(paths) > 1 and name not in TWINS}


def riddles(files: list[File]) -> tuple[int, int]:
    """Count the docstrings that hint at the code, and all docstrings."""
    texts = [ast.get_docstring(node) for file in files for node in file.documented]
    written = [text for text in texts if text]
    return sum(bool(re.match(RIDDLE, text)) for text in written), len(written)


def percentile(values: Iterable[int], share: float) -> int:
    """Return the smallest value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def length(function: Function) -> int:
    """Count the lines of a function, its docstring left out."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        text = function.body[0]
        lines -= (text.end_lineno or text.lineno) - text.lineno + 1
    return lines


def rows(files: list[File]) -> Iterator[tuple[str, str]]:
    """Yield the measures, each with its figure."""
    functions = [function for file in files for function, _ in file.functions]
    lengths = [length(function) for function in functions]
    file_lengths = [len(file.text.splitlines()) for file in files]
    single = len(list(one_use(files)))
    riddle, documented = riddles(files)
    yield "files", f"{len(files)}"
    yield "lines of code", f"{sum(file.lines_of_code() for file in files):,}"
    yield "functions", f"{len(functions):,}"
    yield "functions with one use", f"{single} ({100 * single / len(functions):.1f} %)"
    yield "riddle docstrings", f"{riddle} of {documented} ({100 * riddle / documented:.1f} %)"
    yield "class names with several meanings", f"{len(several_meanings(files))}"
    yield "function p90 / max, lines", f"{percentile(lengths, 0.9)} / {max(lengths)}"
    yield "file p90 / max, lines", f"{percentile(file_lengths, 0.9)} / {max(file_lengths)}"


def rooms(files: list[File]) -> Iterator[tuple[str, int, int, int]]:
    """Yield each folder with its files, lines of code and functions with one use."""
    lines: Counter[str] = Counter()
    count: Counter[str] = Counter()
    single: Counter[str] = Counter()
    for file in files:
        lines[_room(file)] += file.lines_of_code()
        count[_room(file)] += 1
    for file, _ in one_use(files):
        single[_room(file)] += 1
    for room in sorted(lines):
        yield room, count[room], lines[room], single[room]


def _room(file: File) -> str:
    parts = file.path.parts[:-1]
    return "/".join(parts[: 3 if parts[:2] == ("bot", "platforms") else 2])


def main() -> None:
    """Print the measures, and with `--list` what is counted; a folder may be named."""
    words = sys.argv[1:]
    listed = "--list" in words
    places = [word for word in words if not word.startswith("--")]
    files = read(Path(places[0]) if places else ROOT)
    for name, figure in rows(files):
        print(f"{name:<36} {figure}")
    print()
    for room, count, lines, single in rooms(files):
        print(f"{room:<28} {count:>4} files {lines:>7,} lines {single:>5} functions with one use")
    if listed:
        print()
        for file, function in one_use(files):
            print(f"{file.path}:{function.lineno} {function.name}")
        for name, homes in sorted(several_meanings(files).items()):
            print(f"class {name}: {', '.join(homes)}")


if __name__ == "__main__":
    main()
