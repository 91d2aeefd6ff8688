"""`python -m bench.measures`: print the measures of the source code.

Counts `bot`, `db`, `migrations` and `skills` of a folder (this checkout unless one is named), so
that two states of the code are measured by the same rules.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.table import percentile
from tests.house import ROOT, Function, House, Source, length_of
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


def lines_of_code(source: Source) -> int:
    """Count the lines that hold code: no blank lines, comments or docstrings.

    The docstring of an attribute, such as a setting, is the string below it and counts as one.
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in source.nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def uses_in(source: Source) -> Counter[str]:
    """Count the uses of each name in a file: as a name, an attribute or an imported name."""
    found: Counter[str] = Counter()
    for node in source.nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                found[name] += 1
            case ast.ImportFrom():
                found.update(alias.name for alias in node.names)
    return found


def is_measured(function: Function, parent: ast.AST) -> bool:
    """Return True if only our own code calls a function: no `__enter__`, decorator or protocol."""
    bases = parent.bases if isinstance(parent, ast.ClassDef) else []
    of_protocol = any(ast.unparse(base).partition("[")[0] == "Protocol" for base in bases)
    return not (function.name.startswith("__") or function.decorator_list or of_protocol)


def one_use(house: House) -> Iterator[tuple[Source, Function]]:
    """Yield the private, nested and one-module public functions that are used in one place."""
    uses = {source.path: uses_in(source) for source in house.inside}
    total: Counter[str] = Counter()
    for counted in uses.values():
        total += counted
    for source in house.inside:
        for parent in source.nodes:
            for function in ast.iter_child_nodes(parent):
                if not isinstance(function, Function) or not is_measured(function, parent):
                    continue
                name, mine = function.name, uses[source.path]
                inside = isinstance(parent, Function) or name.startswith("_")
                if mine[name] == 1 and (inside or total[name] == 1):
                    yield source, function


def several_meanings(house: House) -> dict[str, list[str]]:
    """Return the class names that several modules define, twins of adapters left out."""
    homes = house.class_homes
    return {name: paths for name, paths in homes.items() if len(paths) > 1 and name not in TWINS}


def riddles(house: House) -> tuple[int, int]:
    """Count the docstrings that hint at the code, and all docstrings."""
    texts = [text for source in house.inside for text in source.docstrings]
    return sum(bool(RIDDLE.match(text)) for text in texts), len(texts)


def rows(house: House) -> Iterator[tuple[str, str]]:
    """Yield the measures, each with its figure."""
    lengths = [length_of(each) for source in house.inside for each in source.functions]
    file_lengths = [len(source.text.splitlines()) for source in house.inside]
    single = len(list(one_use(house)))
    riddle, documented = riddles(house)
    yield "files", f"{len(house.inside)}"
    yield "lines of code", f"{sum(map(lines_of_code, house.inside)):,}"
    yield "functions", f"{len(lengths):,}"
    yield "functions with one use", f"{single} ({100 * single / len(lengths):.1f} %)"
    yield "riddle docstrings", f"{riddle} of {documented} ({100 * riddle / documented:.1f} %)"
    yield "class names with several meanings", f"{len(several_meanings(house))}"
    yield "function p90 / max, lines", f"{percentile(lengths, 90):.0f} / {max(lengths)}"
    yield "file p90 / max, lines", f"{percentile(file_lengths, 90):.0f} / {max(file_lengths)}"


def rooms(house: House) -> Iterator[tuple[str, int, int, int]]:
    """Yield each folder with its files, lines of code and functions with one use."""
    lines: Counter[str] = Counter()
    count: Counter[str] = Counter()
    single = Counter(_room(source) for source, _ in one_use(house))
    for source in house.inside:
        lines[_room(source)] += lines_of_code(source)
        count[_room(source)] += 1
    for room in sorted(lines):
        yield room, count[room], lines[room], single[room]


def _room(source: Source) -> str:
    parts = source.path.split("/")[:-1]
    return "/".join(parts[: 3 if parts[:2] == ["bot", "platforms"] else 2])


def main() -> None:
    """Print the measures, and with `--list` what is counted; a folder may be named."""
    words = sys.argv[1:]
    places = [word for word in words if not word.startswith("--")]
    house = House(Path(places[0]) if places else ROOT)
    for name, figure in rows(house):
        print(f"{name:<36} {figure}")
    print()
    for room, count, lines, single in rooms(house):
        print(f"{room:<28} {count:>4} files {lines:>7,} lines {single:>5} functions with one use")
    if "--list" in words:
        print()
        for source, function in one_use(house):
            print(f"{source.at(function)} {function.name}")
        for name, homes in sorted(several_meanings(house).items()):
            print(f"class {name}: {', '.join(homes)}")


if __name__ == "__main__":
    main()
