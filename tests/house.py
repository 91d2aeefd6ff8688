"""Our own source code as data: what `test_architecture` judges."""

import ast
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: The product.
INSIDE = ("bot", "db", "migrations", "skills")
#: What stands beside it.
BESIDE = ("tests", "bench")

Function = ast.FunctionDef | ast.AsyncFunctionDef
#: The nodes that may have a docstring.
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def begins(module: str, starts: tuple[str, ...] | str) -> bool:
    """Whether a module is one of these or inside it."""
    starts = (starts,) if isinstance(starts, str) else starts
    dotted = f"{module}."
    return any(dotted.startswith(f"{start}.") for start in starts)


@dataclass(frozen=True, slots=True)
class Import:
    """One import.

    Attributes:
        source: `bot.errors` in `from bot.errors import BotError`; empty in `import bot.errors`.
        target: The imported name in full: `bot.errors.BotError`.
        late: Inside a function.
        typing: For the type checker only.
    """

    line: int
    source: str
    target: str
    late: bool
    typing: bool


@dataclass(frozen=True)
class Source:
    """One file."""

    module: str
    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree, which several rules look through."""
        return list(ast.walk(self.tree))

    @cached_property
    def imported(self) -> tuple[Import, ...]:
        return tuple(_imports(self.tree))

    @cached_property
    def origins(self) -> dict[str, str]:
        """What the names that this module's imports bring in stand for."""
        return {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in self.nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    @cached_property
    def docstrings(self) -> list[str]:
        """All docstrings, those of attributes included: the string below one, but for a bool."""
        documented = [node for node in self.nodes if isinstance(node, Documented)]
        texts = [text for node in documented if (text := ast.get_docstring(node))]
        bodies = [node.body for node in documented if isinstance(node, ast.Module | ast.ClassDef)]
        for attribute, below in (pair for body in bodies for pair in pairwise(body)):
            match attribute, below:
                case ast.AnnAssign(annotation=ast.Name(id="bool")), _:
                    continue
                case (
                    ast.Assign() | ast.AnnAssign(),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts.append(text)
        return texts

    @cached_property
    def functions(self) -> list[Function]:
        return [node for node in self.nodes if isinstance(node, Function)]

    def at(self, node: ast.stmt | ast.expr | ast.ExceptHandler | Import) -> str:
        return f"{self.path}:{node.line if isinstance(node, Import) else node.lineno}"


def _imports(tree: ast.Module) -> Iterator[Import]:
    waiting: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    for node, late, typing in waiting:
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, "", alias.name, late, typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            for alias in node.names:
                yield Import(node.lineno, start, f"{start}.{alias.name}", late, typing)
        elif isinstance(node, ast.Call) and _name(node.func) == "import_module":
            names = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            yield from (Import(node.lineno, "", str(name), True, typing) for name in names)
        inner = late or isinstance(node, Function | ast.Lambda)
        only = typing or _is_for_types(node)
        waiting.extend((below, inner, only) for below in ast.iter_child_nodes(node))


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING"


def _name(node: ast.expr) -> str:
    """Return the last word of a dotted name; empty for anything else."""
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word):
            return word
        case _:
            return ""


#: Our classes by their full name, each with the file that it stands in.
Classes = dict[str, tuple[Source, ast.ClassDef]]


class House:
    """All our files, by module; those of another checkout for its folder."""

    def __init__(self, root: Path = ROOT) -> None:
        self.sources: dict[str, Source] = {}
        for top in (*INSIDE, *BESIDE):
            for path in sorted((root / top).rglob("*.py")):
                self.add(path.relative_to(root).as_posix(), path.read_text("utf-8"))

    def with_file(self, path: str, text: str) -> "House":
        """Return the same files and one more, as if it stood at this path."""
        other = copy(self)
        other.sources = dict(self.sources)
        other.add(path, text)
        return other

    def add(self, path: str, text: str) -> None:
        """Put in a file."""
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self.sources[module] = Source(module, path, text)

    @property
    def inside(self) -> list[Source]:
        """The files of the product."""
        return [source for source in self.sources.values() if begins(source.module, INSIDE)]

    @property
    def all(self) -> list[Source]:
        """The files of the product, its tests and its benchmarks."""
        return list(self.sources.values())

    def own_imports(self, source: Source) -> list[tuple[Import, str]]:
        """Every import of a module of ours, and the module."""
        return [
            (found, found.target if found.target in self.sources else found.source or found.target)
            for found in source.imported
            if begins(found.target, INSIDE + BESIDE)
        ]

    @property
    def class_homes(self) -> dict[str, list[str]]:
        """The paths of the files of the product that define a class of each name."""
        homes: dict[str, list[str]] = {}
        for source in self.inside:
            for node in source.nodes:
                if isinstance(node, ast.ClassDef):
                    homes.setdefault(node.name.lstrip("_"), []).append(source.path)
        return homes

    @property
    def classes(self) -> Classes:
        """Every class of the product that stands at the top of its file."""
        return {
            f"{source.module}.{node.name}": (source, node)
            for source in self.inside
            for node in source.tree.body
            if isinstance(node, ast.ClassDef)
        }


def calls_when_imported(tree: ast.AST) -> Iterator[ast.Call]:
    """Find what is called outside of function bodies: defaults count, decorators do not."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function | ast.Lambda):
            yield from calls_when_imported(node.args)
            continue
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                yield from calls_when_imported(ast.Module([statement], []))
            continue
        if isinstance(node, ast.Call):
            yield node
        yield from calls_when_imported(node)


def length_of(function: Function) -> int:
    """Return the lines of a function, without its docstring and the functions inside it."""
    length = _lines(function)
    if ast.get_docstring(function, clean=False) is not None:
        length -= _lines(function.body[0])
    inner = (node for node in function.body if isinstance(node, Function))
    return length - sum(_lines(node) for node in inner)


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1
