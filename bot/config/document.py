"""Reads a YAML file defensively: within bounds, and with the line of every key."""

import re
from dataclasses import dataclass, field
from math import isfinite

import yaml

from bot.agent.documents import MOST_NUMBER, encodable
from bot.config.interpolation import Key, Tree

MAX_BYTES = 1_000_000
MAX_DEPTH = 20
#: Values repeated by an alias count too, so that a few lines cannot expand to millions.
MAX_VALUES = 10_000

#: Advice on a YAML error, by words in its text; the first match applies.
_HINTS = (
    ("mapping values", "a value that holds `: ` needs quotes around it"),
    ("alias", "a value that begins with `*` needs quotes around it"),
    ("occurrence", "a value that begins with `&` needs quotes around it"),
    ("tag", "a value that begins with `!` needs quotes around it"),
    ("cannot start", "a value that begins with such a character needs quotes around it"),
    ("document", "remove the `---`, since there is only one part"),
    ("too", "write it with less"),
    ("", "check quotes, brackets and the spaces at the beginning of the lines"),
)

_ENDLESS = 1_000_000

#: YAML's quotations from the file may hold secrets; single characters and its own terms do not.
_QUOTED = re.compile(r" '(?!<)[^']{2,}'| \"[^\"]{2,}\"")


@dataclass(slots=True)
class YamlDocument:
    """The content of a file.

    Attributes:
        origins: The origin of each key, in the words of an error: `line 3`, `from VARIABLE`.
        problems: The problem of each key; the empty key denotes the whole file.
    """

    tree: dict[str, Tree] = field(default_factory=dict)
    origins: dict[Key, str] = field(default_factory=dict)
    problems: dict[Key, str] = field(default_factory=dict)


def read(raw: bytes) -> YamlDocument:
    """Return the content of a file; errors are listed in `problems`."""
    if len(raw) > MAX_BYTES:
        return _broken(f"it is longer than {MAX_BYTES:,} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return _broken("it is not UTF-8 text; save it as UTF-8")
    try:
        node = _Loader(text).get_single_node()
        return _NodeReader().document(node)
    except yaml.MarkedYAMLError as error:
        return _broken(*_explain(error, text.splitlines()))
    except yaml.YAMLError:
        return _broken("it holds characters that YAML does not allow, such as control characters")


def value_of(text: str) -> Tree:
    """Return the value of a variable: a list or section in YAML flow style, else the text."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    document = read(f"value: {text}".encode())
    return text if document.problems else document.tree.get("value")


class _Loader(yaml.SafeLoader):
    """Composes nodes to a bounded depth; Python's recursion limit would apply far too late."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mark = self.get_mark()
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _NodeReader:
    """Converts nodes to values one by one, and records their lines."""

    def __init__(self) -> None:
        self._document = YamlDocument()
        self._constructor = yaml.constructor.SafeConstructor()
        self._values = 0

    def document(self, node: yaml.Node | None) -> YamlDocument:
        """Return the whole document."""
        if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
            return self._document
        if not isinstance(node, yaml.MappingNode):
            return _broken("it must hold keys with values, like `subagents:`", _line(node))
        self._document.tree = self._mapping(node, ())
        return self._document

    def _value(self, node: yaml.Node, key: Key) -> Tree:
        self._values += 1
        if self._values > MAX_VALUES or len(key) > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem="too many values, those that aliases repeat included",
                problem_mark=node.start_mark,
            )
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            items = []
            for index, part in enumerate(node.value):
                self._document.origins[*key, index] = _line(part)
                items.append(self._value(part, (*key, index)))
            return items
        try:
            value = self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError):
            marked = str(node.tag).startswith("!")
            self._document.problems[key] = (
                "begins with `!`, which has a meaning in YAML; put the value in quotes"
                if marked
                else "looks like a date or a number, and is none; put the value in quotes"
            )
            return None
        if isinstance(value, str) and value != encodable(value):
            self._document.problems[key] = "holds a character that is none (`\\0`, `\\ud800`)"
            return None
        if isinstance(value, int) and abs(value) >= MOST_NUMBER:
            return str(node.value)
        if isinstance(value, float) and not isfinite(value):
            return str(node.value)
        # No key takes a date or a similar type: use the text as written.
        return value if isinstance(value, str | int | float | None) else str(node.value)

    def _mapping(self, node: yaml.MappingNode, key: Key) -> dict[str, Tree]:
        values: dict[str, Tree] = {}
        for name, part in node.value:
            if not isinstance(name, yaml.ScalarNode):
                self._document.problems[key] = "every key in it must be a plain word"
                self._document.origins[key] = _line(name)
                continue
            path = (*key, name.value)
            if name.value in values:
                self._document.problems[path] = (
                    f"is there twice, also in {_line(name)}; remove one of them"
                )
                continue
            self._document.origins[path] = _line(name)
            values[name.value] = self._value(part, path)
        return values


def _broken(problem: str, origin: str = "") -> YamlDocument:
    return YamlDocument(problems={(): problem}, origins={(): origin} if origin else {})


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"


def _explain(error: yaml.MarkedYAMLError, lines: list[str]) -> tuple[str, str]:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return "it is not valid YAML", ""
    line = lines[mark.line] if mark.line < len(lines) else ""
    problem = _QUOTED.sub("", str(error.problem))
    if "${" in line and ("[" in line or line.count("{") > line.count("${")):
        hint = 'inside [ ] and { } write variables in quotes: ["${NAME}"]'
    elif "'\\t'" in problem or "\t" in line[: mark.column + 1]:
        hint = "indent with spaces, not with tabs"
    else:
        hint = next(hint for words, hint in _HINTS if words in problem)
    return f"it is not valid YAML ({problem}): {hint}", f"line {mark.line + 1}"


def written(value: object) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=_ENDLESS)
    if len(text.removesuffix("...\n").splitlines()) > 1:
        # In single quotes YAML writes a line break as such; double quotes escape it.
        text = yaml.safe_dump(value, default_flow_style=True, default_style='"', width=_ENDLESS)
    return str(text).removesuffix("...\n").removesuffix("\n")
