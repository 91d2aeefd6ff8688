"""Builds requests from a model's arguments (pure)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from bot.agent.documents import encodable, too_deep
from bot.agent.sanitizer import one_line
from bot.errors import ToolError
from bot.values import Json
from skills.rest.openapi import BODY, Operation, Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as sent, without the credentials."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    body: bytes | None = None
    media_type: str = ""


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
            items = value if isinstance(value, list) else [value]
            text = ",".join(_text(each) for each in items)
            # A dot segment would be resolved as a step up, to another operation.
            if text.strip() in ("", ".", ".."):
                raise ToolError(
                    f"`{parameter.argument}` cannot be {text!r}. Give the id or name itself."
                )
            path = path.replace("{" + parameter.name + "}", quote(text, safe=""))
        elif parameter.where == "query":
            query += _pairs(parameter, value)
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
    content, media_type = _content(operation, body)
    return Request(
        method=operation.method,
        path=path,
        query=tuple(query),
        headers=headers,
        body=content,
        media_type=media_type,
    )


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


def _pairs(parameter: Parameter, value: object) -> list[tuple[str, str]]:
    name = parameter.name
    if isinstance(value, list):
        if parameter.exploded:
            return [(name, _text(each)) for each in value]
        return [(name, ",".join(_text(each) for each in value))]
    if isinstance(value, dict):
        if parameter.deep:
            return [(f"{name}[{key}]", _text(each)) for key, each in value.items()]
        if parameter.exploded:
            return [(str(key), _text(each)) for key, each in value.items()]
    return [(name, _text(value))]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _content(operation: Operation, body: object) -> tuple[bytes | None, str]:
    if body is None:
        return None, ""
    if operation.form:
        if not isinstance(body, dict):
            raise ToolError(f"`{BODY}` must be an object.")
        pairs = {key: _text(value) for key, value in body.items()}
        return urlencode(pairs).encode(), "application/x-www-form-urlencoded"
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"), "application/json"
