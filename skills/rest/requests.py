"""Builds requests from a model's arguments (pure)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from bot.agent.documents import encodable, too_deep
from bot.agent.sanitizer import one_line
from bot.errors import ToolError
from bot.net.base import FormPart
from bot.values import Json
from skills.rest.bodies import WHOLE, BodyKind, FormField
from skills.rest.operations import BODY, Operation, Parameter, leads_up

#: Most files of a request.
MOST_FILES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A part of a form whose content is a file of the workspace, which has not been read.

    Attributes:
        name: The name of the field.
        path: The path in the workspace.
        media_types: Those that the service takes; empty for all.
    """

    name: str
    path: str
    media_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as sent, without the credentials.

    Attributes:
        form: The parts of a form with files, or a body that is a file, in place of a body.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    body: bytes | None = None
    media_type: str = ""
    form: tuple[FormPart | FilePart, ...] | None = None

    @property
    def parts(self) -> tuple[FormPart, ...]:
        """The parts of the form that can be sent: all of them, once the files have been read."""
        return tuple(each for each in self.form or () if isinstance(each, FormPart))


def request_for(operation: Operation, arguments: Json) -> Request:
    """Return the request for these arguments (pure).

    Raises:
        ToolError: The arguments do not match the schema; the text has the reason.
    """
    if too_deep(arguments):
        raise ToolError(f"{operation.name} was not called: its arguments are nested too deeply.")
    # A lone surrogate cannot be encoded in a URL or a body.
    arguments = encodable(arguments)
    _check_arguments(operation, arguments)
    path, query, headers = operation.path, list[tuple[str, str]](), dict[str, str]()
    body: Any = None
    for parameter in operation.parameters:
        if parameter.argument not in arguments:
            continue
        value = arguments[parameter.argument]
        if parameter.where == "path":
            text = _in_path(parameter, value)
            path = path.replace("{" + parameter.name + "}", quote(text, safe=""))
        elif parameter.where == "query":
            query += _pairs(parameter.name, value, exploded=parameter.exploded, deep=parameter.deep)
        elif parameter.where == "header":
            headers[parameter.name] = text = _text(value)
            if not text.isascii() or not text.isprintable():
                raise ToolError(
                    f"`{parameter.argument}` may hold plain letters, digits and signs only."
                )
        elif parameter.name:
            body = {**(body or {}), parameter.name: value}
        else:
            body = value
    if leads_up(path.partition("?")[0]):
        raise ToolError(f"{operation.name} was not called: these arguments name no single thing.")
    request = Request(method=operation.method, path=path, query=tuple(query), headers=headers)
    return request if body is None else _with_body(request, operation, body)


def files_in(operation: Operation, arguments: Json) -> tuple[str, ...]:
    """Return the paths of the files that a call would send."""
    body = arguments.get(BODY)
    if operation.body is BodyKind.FILE:
        return (body,) if isinstance(body, str) else ()
    fields = body if isinstance(body, dict) else {}
    found: list[str] = []
    for name, value in fields.items():
        given = operation.fields.get(str(name))
        if given is not None and given.is_file:
            listed = value if isinstance(value, list) else [value]
            found += (each for each in listed if isinstance(each, str))
    return tuple(found)


def _in_path(parameter: Parameter, value: object) -> str:
    items = value if isinstance(value, list) else [value]
    text = ",".join(_text(each) for each in items)
    if not text.strip() or leads_up(text):
        raise ToolError(
            f"`{parameter.argument}` cannot be {text!r:.100}. Give the id or name itself."
        )
    return text


def _check_arguments(operation: Operation, arguments: Json) -> None:
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from jsonschema.exceptions import best_match  # noqa: PLC0415
    from jsonschema.validators import extend  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415

    # A pattern of the document could take for ever on a model's text; the service checks it anyway.
    kind = extend(Draft202012Validator, {"pattern": None, "patternProperties": None})
    registry: Registry[Any] = Registry()
    error = best_match(kind(operation.schema, registry=registry).iter_errors(arguments))
    if error is not None:
        where = ".".join(str(part) for part in error.absolute_path) or "arguments"
        raise ToolError(
            f"{operation.name} was not called: `{where}`: {one_line(error.message, 300)}. Correct "
            "the arguments and call it again."
        )


def _pairs(name: str, value: object, *, exploded: bool, deep: bool) -> list[tuple[str, str]]:
    """Return a value as parameters of a query or a form."""
    if deep and isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        nested = (_pairs(f"{name}[{k}]", each, exploded=True, deep=True) for k, each in items)
        return [pair for pairs in nested for pair in pairs]
    if isinstance(value, list):
        if exploded:
            return [(name, _text(each)) for each in value]
        return [(name, ",".join(_text(each) for each in value))]
    if isinstance(value, dict) and exploded:
        return [(str(key), _text(each)) for key, each in value.items()]
    return [(name, _text(value))]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _with_body(request: Request, operation: Operation, body: object) -> Request:
    if operation.body is BodyKind.JSON:
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        return replace(request, body=content, media_type=BodyKind.JSON)
    if operation.body in (BodyKind.TEXT, BodyKind.FILE):
        media_types = operation.fields[WHOLE].media_types
        if operation.body is BodyKind.FILE:
            part = FilePart(name=BODY, path=str(body), media_types=media_types)
            return replace(request, form=(part,))
        content = str(body).encode("utf-8", "replace")
        return replace(request, body=content, media_type=f"{media_types[0]}; charset=utf-8")
    if not isinstance(body, dict):
        raise ToolError(f"`{BODY}` must be an object.")
    fields = [
        (name, value, operation.fields.get(name, FormField()))
        for name, value in body.items()
        if value is not None
    ]
    if operation.body is BodyKind.FORM:
        pairs = [pair for name, value, how in fields for pair in _form_pairs(name, value, how)]
        return replace(request, body=urlencode(pairs).encode(), media_type=BodyKind.FORM)
    parts = tuple(part for name, value, how in fields for part in _parts(name, value, how))
    if sum(isinstance(each, FilePart) for each in parts) > MOST_FILES:
        raise ToolError(
            f"{operation.name} was not called: at most {MOST_FILES} files are sent at once. Send "
            "fewer."
        )
    return replace(request, form=parts)


def _form_pairs(name: str, value: object, how: FormField) -> list[tuple[str, str]]:
    if any(each.endswith("json") for each in how.media_types):
        return [(name, json.dumps(value, ensure_ascii=False))]
    if isinstance(value, dict) and not how.deep:
        return [(name, _text(value))]
    return _pairs(name, value, exploded=how.exploded, deep=how.deep)


def _parts(name: str, value: Any, how: FormField) -> Iterator[FormPart | FilePart]:
    """Yield the parts of a form for a field."""
    if how.is_file:
        for path in value if isinstance(value, list) else [value]:
            if not isinstance(path, str):
                raise ToolError(f"`{name}` must be the path of a file in the workspace.")
            yield FilePart(name=name, path=path, media_types=how.media_types)
        return
    media_type = next(iter(how.media_types), "")
    is_json = media_type == BodyKind.JSON or media_type.endswith("+json")
    for each in value if isinstance(value, list) and not is_json else [value]:
        kind = media_type or (BodyKind.JSON if isinstance(each, dict | list) else "")
        text = json.dumps(each, ensure_ascii=False) if is_json else _text(each)
        yield FormPart(name=name, content=text.encode("utf-8", "replace"), media_type=kind)
