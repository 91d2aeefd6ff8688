"""Writes `config.example.yaml` and the JSON Schema from the settings themselves."""

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from bot.config.document import written
from bot.config.interpolation import Key
from bot.config.loading import FROM_ENVIRONMENT
from bot.config.model import Config
from bot.config.problems import is_secret, section
from bot.values import Settings

EXAMPLE_FILE = Path("config.example.yaml")
SCHEMA_FILE = Path("docs/config.schema.json")
#: Files that come with the bot besides code: links in the repository, copies when installed.
BUILT_IN = Path(__file__).parents[1] / "builtin"

#: Note on keys that are read at the start only.
NEEDS_RESTART = "A change needs a restart."

_HEAD = f"""\
# yaml-language-server: $schema={SCHEMA_FILE}

# Every key with its default. Copy what you want to change to config.yaml: every section and every
# key may be left out. `python -m bot check` says whether it is right, and what it means.
#
# A text may name variables of the environment: ${{NAME}}, or ${{NAME:-default}}; $${{ stands for
# the two characters themselves. Inside [ ] and {{ }} such a text needs quotes. Any key can also be
# set from outside: RETINUE__SUBAGENTS__MAX_DEPTH=2.
"""


def example() -> str:
    """Return the text of `config.example.yaml`: it loads, and sets every key to its default."""
    return _HEAD + "\n".join(_section(Config, Config(), ())) + "\n"


def schema() -> str:
    """Return the JSON Schema of `config.yaml`, for editors."""
    described = Config.model_json_schema(schema_generator=_Schema)
    return json.dumps(described, indent=2, ensure_ascii=False) + "\n"


def shipped() -> str:
    """Return the example that came with the bot, for use outside of the bot's folders."""
    text = (BUILT_IN / EXAMPLE_FILE).read_text(encoding="utf-8")
    return text.replace(str(SCHEMA_FILE), str(BUILT_IN / SCHEMA_FILE.name))


def write(folder: Path) -> tuple[Path, Path]:
    """Write both files below a folder, and return their paths."""
    files = (folder / EXAMPLE_FILE, folder / SCHEMA_FILE)
    for file, text in zip(files, (example(), schema()), strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return files


@cache
def descriptions(kind: type[Settings]) -> dict[str, str]:
    """Return the description of each key of a section: the docstring below its attribute.

    pydantic's `use_attribute_docstrings` would parse every source at every start: 0.1 seconds.
    """
    found: dict[str, str] = {}
    for each in reversed([each for each in kind.mro() if issubclass(each, Settings)]):
        nodes = ast.walk(ast.parse(inspect.getsource(sys.modules[each.__module__])))
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        bodies = [node.body for node in classes if node.name == each.__name__]
        for attribute, below in (pair for body in bodies for pair in pairwise(body)):
            match attribute, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = " ".join(text.split())
    for name in kind.at_start:
        found[name] = f"{found[name]} {NEEDS_RESTART}"
    return found


class _Schema(GenerateJsonSchema):
    """Adds the descriptions, and allows `${NAME}` in place of a number, a bool or a literal."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        kind: type[Settings] = schema["cls"]
        for name, text in descriptions(kind).items():
            described["properties"][name]["description"] = text
        return described

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        described = super().generate_inner(schema)
        if schema["type"] in {"int", "float", "bool", "literal"}:
            return {"anyOf": [described, {"type": "string", "pattern": r"\$\{"}]}
        return described


def _section(kind: type[Settings], values: Settings, above: Key) -> Iterator[str]:
    indent, texts = "  " * len(above), descriptions(kind)
    for name, field in kind.model_fields.items():
        key, value = (*above, name), getattr(values, name)
        if not above:
            yield ""
        below = section(field)
        text = texts.get(name) or field.description or (below.__doc__ if below else "")
        yield fill(
            (text or "").partition("\n")[0],
            100,
            initial_indent=f"{indent}# ",
            subsequent_indent=f"{indent}# ",
        )
        if isinstance(value, Settings):
            yield f"{indent}{name}:"
            yield from _section(type(value), value, key)
        elif is_secret(field):
            variable = FROM_ENVIRONMENT.get(key) or "_".join(map(str, key)).upper()
            yield f"{indent}# {name}: ${{{variable}}}"
        else:
            default = values.model_dump(mode="json")[name]
            yield f"{indent}{name}: {written(default)}"
