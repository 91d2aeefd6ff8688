"""Converts OpenAPI 3 documents and configured requests to operations (pure)."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from bot.agent.plain import clean, plain
from bot.agent.sanitizer import one_line
from bot.catalog.schemas import check_foreign_schema, tool_name
from bot.errors import ConfigError
from bot.values import Json
from skills.rest.settings import RequestSettings

MOST_OPERATIONS = 128
MOST_DESCRIPTION_CHARACTERS = 2_000
MOST_SCHEMA_CHARACTERS = 24_000
#: Most nested references that are followed; deeper schemas accept anything.
DEEPEST = 8
METHODS = ("get", "head", "post", "put", "patch", "delete")
BODY = "body"

#: Headers that only the bot sets: they decide the destination of a request, or its sender.
_OUR_HEADERS = frozenset(
    (
        *("accept", "authorization", "connection", "content-length", "content-type", "cookie"),
        *("expect", "host", "origin", "proxy-authorization", "referer", "te", "trailer"),
        *("transfer-encoding", "upgrade", "via", "x-forwarded-for", "x-forwarded-host"),
        "x-http-method-override",
    )
)
_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_IN_PATH = re.compile(r"\{([^{}]*)\}")
_DROPPED = frozenset(
    (
        *("discriminator", "xml", "example", "examples", "externalDocs", "deprecated"),
        *("readOnly", "writeOnly", "$schema", "$id", "$anchor", "$dynamicAnchor"),
    )
)

Where = Literal["path", "query", "header", "body"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """The place of an argument in a request.

    Attributes:
        argument: Its name for models.
        name: Its name for the service; empty for a whole body.
        exploded: A list is sent as repeated parameters, an object as one parameter per key.
        deep: An object is written as name[key].
    """

    argument: str
    name: str
    where: Where
    exploded: bool = True
    deep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A request that can be made.

    Attributes:
        id: Its id in the document or the configuration.
        name: Its name for models.
        path: Below the base, with parameters in braces.
        schema: The schema of the arguments.
        form: The body is sent as a form and not as JSON.
    """

    id: str
    name: str
    method: str
    path: str
    description: str
    schema: Json
    parameters: tuple[Parameter, ...]
    form: bool = False


@dataclass(frozen=True, slots=True)
class OpenApiDocument:
    """The content of a document.

    Attributes:
        servers: The URLs of the service.
        problems: The parts that were left out, with the reasons.
    """

    operations: tuple[Operation, ...]
    servers: tuple[str, ...]
    problems: tuple[str, ...]


def name_for(service: str, operation: str) -> str:
    """Return the name of a tool: `rest__service__operation`, of at most 64 plain characters."""
    return tool_name(f"rest__{service}__", operation)


def read(service: str, tree: object) -> OpenApiDocument:
    """Return the operations of a document; unusable ones are left out.

    Raises:
        ConfigError: It is no OpenAPI 3 document.
    """
    if not isinstance(tree, dict) or not str(tree.get("openapi", "")).startswith("3."):
        raise ConfigError(
            f"The document of the REST service {service} is no OpenAPI 3 document: it must begin "
            "with `openapi: 3.…`. Convert it, or write `requests` by hand."
        )
    reader = _OperationReader(service, tree)
    found: dict[str, Operation] = {}
    problems: list[str] = []
    paths = tree.get("paths")
    listed = [
        (path, method, item, item[method])
        for path, item in (paths.items() if isinstance(paths, dict) else ())
        if isinstance(path, str) and isinstance(item, dict)
        for method in METHODS
        if isinstance(item.get(method), dict)
    ]
    for path, method, item, operation in listed:
        try:
            made = reader.operation(path, method, item, operation)
        except (ValueError, RecursionError) as error:
            problems.append(f"{method.upper()} {one_line(path)} is left out: {error}")
            continue
        if made.name in found:
            problems.append(f"two operations are called {made.name}; the second is left out")
        elif len(found) >= MOST_OPERATIONS:
            problems.append(f"there are more than {MOST_OPERATIONS} operations; name `operations`")
            break
        else:
            found[made.name] = made
    servers = tree.get("servers")
    urls = [each.get("url") for each in servers if isinstance(each, dict)] if servers else []
    return OpenApiDocument(
        tuple(found.values()), tuple(url for url in urls if isinstance(url, str)), tuple(problems)
    )


def by_hand(service: str, name: str, request: RequestSettings) -> Operation:
    """Return a request of the configuration as an operation."""
    places: dict[str, Where] = dict.fromkeys(request.query, "query")
    places |= dict.fromkeys(_IN_PATH.findall(request.path), "path")
    parameters = tuple(
        Parameter(argument=each, name=each, where=places.get(each, "body"))
        for each in request.parameters
    )
    schema = {
        "type": "object",
        "properties": dict(request.parameters),
        "required": [each for each in request.parameters if each not in request.optional],
        "additionalProperties": False,
    }
    return Operation(
        id=name,
        name=name_for(service, name),
        method=request.method,
        path=request.path,
        description=plain(request.description, limit=MOST_DESCRIPTION_CHARACTERS),
        schema=schema,
        parameters=parameters,
    )


class _OperationReader:
    def __init__(self, service: str, tree: Json) -> None:
        self._service = service
        self._tree = tree
        self._old = str(tree["openapi"]).startswith("3.0")

    def operation(self, path: str, method: str, item: Json, operation: Json) -> Operation:
        if not path.startswith("/"):
            raise ValueError("its path does not begin with /")
        operation_id = operation.get("operationId") or f"{method}_{path.strip('/')}"
        parameters: list[Parameter] = []
        properties: Json = {}
        required: list[str] = []
        sources: dict[tuple[object, object], Json] = {}
        for part in (item, operation):
            listed = part.get("parameters")
            for each in map(self._resolved, listed if isinstance(listed, list) else ()):
                # A parameter of the operation replaces the one of the path.
                sources[(each.get("name"), each.get("in"))] = each
        for each in sources.values():
            parameter = _parameter(each, taken=properties)
            if parameter is None:
                if each.get("required") and each.get("in") != "header":
                    shown = one_line(str(each.get("name")), 50)
                    raise ValueError(f"its parameter {shown} cannot be sent")
                continue
            parameters.append(parameter)
            properties[parameter.argument] = self._described(each)
            if each.get("required") or parameter.where == "path":
                required.append(parameter.argument)
        form = self._body(operation, parameters, properties, required)
        missing = set(_IN_PATH.findall(path)) - {p.name for p in parameters if p.where == "path"}
        if missing:
            raise ValueError(f"nothing says what {', '.join(sorted(missing))} in its path is")
        schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            schema["required"] = required
        check_foreign_schema(schema, most=MOST_SCHEMA_CHARACTERS)
        text = operation.get("description") or operation.get("summary") or ""
        return Operation(
            id=str(operation_id),
            name=name_for(self._service, str(operation_id)),
            method=method.upper(),
            path=path,
            description=plain(
                f"{text}\n({method.upper()} {path} of {self._service})".strip(),
                limit=MOST_DESCRIPTION_CHARACTERS,
            ),
            schema=schema,
            parameters=tuple(parameters),
            form=form,
        )

    def _described(self, parameter: Json) -> Json:
        schema = parameter.get("schema")
        if schema is None:
            contents = parameter.get("content")
            first: object = next(iter(contents.values()), {}) if isinstance(contents, dict) else {}
            schema = first.get("schema", {}) if isinstance(first, dict) else {}
        made = self._schema(schema)
        if isinstance(parameter.get("description"), str):
            made["description"] = plain(parameter["description"], limit=500)
        return made

    def _body(
        self,
        operation: Json,
        parameters: list[Parameter],
        properties: Json,
        required: list[str],
    ) -> bool:
        """Add the body to the arguments; return True if it is a form."""
        if "requestBody" not in operation:
            return False
        body = self._resolved(operation["requestBody"])
        contents = body.get("content")
        kinds = contents if isinstance(contents, dict) else {}
        media = {kind: kind.partition(";")[0].strip().lower() for kind in kinds}
        usual = ("application/json", "*/*")
        kind = next((k for k in kinds if media[k] in usual or media[k].endswith("+json")), None)
        form = kind is None and "application/x-www-form-urlencoded" in kinds
        kind = "application/x-www-form-urlencoded" if form else kind
        if kind is None:
            if body.get("required"):
                raise ValueError("its body is neither JSON nor a form")
            return False
        if BODY in properties:
            raise ValueError("it has a parameter called body, and a body")
        content = kinds[kind]
        properties[BODY] = self._schema(content.get("schema", {}) if content else {})
        parameters.append(Parameter(argument=BODY, name="", where="body"))
        if body.get("required"):
            required.append(BODY)
        return form

    def _resolved(self, value: object, depth: int = 0) -> Json:
        """Return the target of a reference; only within the document."""
        if not isinstance(value, dict):
            raise ValueError("something in it is not what OpenAPI wants there")  # noqa: TRY004
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return value
        if not reference.startswith("#/") or depth > DEEPEST:
            raise ValueError(f"{one_line(reference)} refers to another document, or in a circle")
        found: Any = self._tree
        for part in reference.removeprefix("#/").split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        if found is None:
            raise ValueError(f"{one_line(reference)} stands for nothing")
        return self._resolved(found, depth + 1)

    def _schema(self, value: object, depth: int = 0) -> Json:
        """Return a JSON Schema without references, in the 2020-12 dialect."""
        if depth > DEEPEST or not isinstance(value, dict):
            return {}
        source = self._resolved(value)
        made: Json = {}
        for key, part in source.items():
            if key in _DROPPED or key.startswith("x-"):
                continue
            if key in ("properties", "patternProperties", "$defs") and isinstance(part, dict):
                made[key] = {str(k): self._schema(each, depth + 1) for k, each in part.items()}
            elif key in ("items", "additionalProperties", "not") and isinstance(part, dict):
                made[key] = self._schema(part, depth + 1)
            elif key in ("allOf", "anyOf", "oneOf", "prefixItems") and isinstance(part, list):
                made[key] = [self._schema(each, depth + 1) for each in part]
            else:
                made[key] = clean(part) if isinstance(part, str) else part
        if self._old:
            _modernize(made)
        return made


def _parameter(source: Json, taken: Mapping[str, object]) -> Parameter | None:
    """Return the place of a parameter; `None` for one that a model must not set."""
    name, where = source.get("name"), source.get("in")
    if not isinstance(name, str) or where not in ("path", "query", "header"):
        return None
    if where == "header" and name.lower() in _OUR_HEADERS:
        return None
    argument = _ODD.sub("_", name)[:50] or "value"
    if argument in taken:
        argument = f"{argument}_{where}"
    if argument in taken or argument == BODY:
        digest = hashlib.sha256(f"{where} {name}".encode()).hexdigest()
        argument = f"{argument}_{digest[:8]}"
    return Parameter(
        argument=argument,
        name=name,
        where=cast(Where, where),
        exploded=bool(source.get("explode", where == "query")),
        deep=source.get("style") == "deepObject",
    )


def _modernize(schema: Json) -> None:
    """Convert the keywords of OpenAPI 3.0 to JSON Schema, in place."""
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(bound), bool):
            strict = schema.pop(bound)
            if strict and limit in schema:
                schema[bound] = schema.pop(limit)
    if schema.pop("nullable", False) and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
