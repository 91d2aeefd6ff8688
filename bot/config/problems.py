"""Explains the errors of a configuration: the problem and the valid form of each key."""

from collections.abc import Iterator
from difflib import get_close_matches
from types import UnionType
from typing import TypeGuard, Union, get_args, get_origin

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from bot.config.document import written
from bot.config.interpolation import Key
from bot.values import Settings

#: pydantic's kinds of error in plain words; pydantic supplies the values for `{…}`.
_MUST = {
    "bool": "must be `true` or `false`",
    "decimal": "must be a number, such as 2.50",
    "decimal_max_places": "must have at most {decimal_places} digits behind the point",
    "dict": "must be a section with keys of its own below it",
    "enum": "must be one of {expected}",
    "finite": "must be a number",
    "float": "must be a number",
    "greater_than": "must be more than {gt:,}",
    "greater_than_equal": "must be at least {ge:,}",
    "int": "must be a whole number",
    "less_than": "must be less than {lt:,}",
    "less_than_equal": "must be at most {le:,}",
    "list": "must be a list, like [a, b]",
    "literal": "must be {expected}",
    "model": "must be a section with keys of its own below it",
    "string": "must be text; put it in quotes",
    "string_pattern_mismatch": "must be written otherwise: see it in config.example.yaml",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "tuple": "must be a list, like [a, b]",
}


def explain(error: ValidationError, root: type[Settings]) -> dict[Key, str]:
    """Return the problem of each key."""
    problems: dict[Key, str] = {}
    for item in error.errors(include_url=False, include_input=False):
        key, field = _find(root, item["loc"])
        context = {each: _shortest(value) for each, value in item.get("ctx", {}).items()}
        match item["type"]:
            case "extra_forbidden":
                problems[item["loc"]] = _unknown(root, item["loc"])
                continue
            case "missing":
                wrong = "must be given"
            case "value_error":
                wrong = str(context["error"])
            case kind:
                # `int_type`, `int_parsing`, `int_from_float` and so on mean the same to a user.
                text = _MUST.get(kind) or _MUST.get(kind.partition("_")[0])
                wrong = text.format(**context) if text else item["msg"]
        default = field.default if field else None
        if isinstance(default, bool | int | float | str) and default != "":
            wrong = f"{wrong}; the default is {written(default)}"
        problems.setdefault(key, wrong)
    return problems


def name(key: Key) -> str:
    """Return a key in the form that users write: `access.admins[0]`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in key]
    return "".join(parts).removeprefix(".")


def section(field: FieldInfo) -> type[Settings] | None:
    """Return the section that a key denotes, or `None`."""
    kind = field.annotation
    return kind if _is_section(kind) else None


def is_secret(field: FieldInfo) -> bool:
    """Return True if the value of a key is masked."""
    return SecretStr in (field.annotation, *get_args(field.annotation))


def _shortest(value: object) -> object:
    """Return a whole bound as an integer: pydantic gives the bounds of floats as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_section(kind: object) -> TypeGuard[type[Settings]]:
    return isinstance(kind, type) and issubclass(kind, Settings)


def all_keys(root: type[Settings], above: Key = ()) -> Iterator[tuple[Key, FieldInfo]]:
    """Yield every key below a section, including sections, in the order of the file."""
    for part, field in root.model_fields.items():
        key = (*above, part)
        yield key, field
        if below := section(field):
            yield from all_keys(below, key)


def _find(root: type[Settings], location: Key) -> tuple[Key, FieldInfo | None]:
    """Return the key of an error, without parts that pydantic adds, and its field."""
    kind: object = root
    field: FieldInfo | None = None
    for index, part in enumerate(location):
        kind, field = _step(kind, part)
        if kind is None:
            return location[:index], _find(root, location[:index])[1]
    return location, field


def _step(kind: object, part: str | int) -> tuple[object, FieldInfo | None]:
    for option in _options(kind):
        if _is_section(option):
            field = option.model_fields.get(str(part))
            if field is not None:
                return field.annotation, field
        elif get_origin(option) is dict:
            return get_args(option)[1], None
        elif get_origin(option) in (tuple, list):
            return get_args(option)[0], None
    return None, None


def _options(kind: object) -> tuple[object, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _unknown(root: type[Settings], location: Key) -> str:
    last = str(location[-1])
    kind: object = root
    for part in location[:-1]:
        kind, _ = _step(kind, part)
    sections = [each for each in _options(kind) if _is_section(each)]
    siblings = list(sections[0].model_fields) if sections else []
    everywhere = [key for key, _ in all_keys(root)]
    elsewhere = [name(key) for key in everywhere if _bare(str(key[-1])) == _bare(last)]
    near = _near(last, siblings)
    if near and (not elsewhere or _bare(near).removesuffix("s") == _bare(last).removesuffix("s")):
        return f"there is no such key; did you mean `{near}`?"
    if elsewhere:
        return f"there is no such key here; it belongs to `{'` or `'.join(elsewhere)}`"
    if far := _near(last, [str(key[-1]) for key in everywhere]):
        places = [name(key) for key in everywhere if key[-1] == far]
        return f"there is no such key; did you mean `{'` or `'.join(places)}`?"
    return f"there is no such key; here you can set {', '.join(siblings)}"


def _near(typed: str, known: list[str]) -> str | None:
    bare = {_bare(each): each for each in known}
    found = get_close_matches(_bare(typed), bare, n=1, cutoff=0.7)
    return bare[found[0]] if found else None


def _bare(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
