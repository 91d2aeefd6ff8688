"""Converts OpenAPI 3 documents to operations (pure)."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from bot.agent.documents import encodable
from bot.agent.plain import plain
from bot.agent.sanitizer import one_line
from bot.catalog.schemas import check_foreign_schema
from bot.errors import ConfigError
from bot.values import Json
from skills.rest.bodies import BodyKind, read_body
from skills.rest.operations import (
    BODY,
    IN_PATH,
    MOST_DESCRIPTION_CHARACTERS,
    MOST_NAMED,
    MOST_OPERATIONS,
    Omission,
    OpenApiDocument,
    Operation,
    Parameter,
    Where,
    leads_up,
    name_for,
)
from skills.rest.schemas import DEPTHS, MOST_SCHEMA_CHARACTERS, SchemaReader, SchemaTooLongError

MOST_NAME_CHARACTERS = 120
METHODS = ("get", "head", "post", "put", "patch", "delete")

#: Most reasons for omissions that are told apart.
MOST_REASONS = 100
OTHER = "unusable for further reasons"
NOT_NAMED = "not named in `operations`"
TWICE = (
    "another operation has the same id, or the same name for models: name it in `operations` by "
    "method and path, or give it another `operationId`"
)
TOO_MANY = (
    f"beyond the {MOST_OPERATIONS} that a service may have: name those that you need in "
    "`operations`"
)

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
#: The name of a header, by RFC 9110.
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: Characters that stay as they are in the path of a document; others are percent-encoded.
_PATH_SIGNS = "/%:@!$&'()*+,;=~?"
_BRACES = re.compile(r"(\{[^{}]*\})")


def read(service: str, tree: object, wanted: Collection[str] | None = None) -> OpenApiDocument:
    """Return the operations of a document; unusable ones are left out, with the reason.

    Args:
        service: The name of the service.
        tree: The parsed document.
        wanted: The operations to take over, by id or by method and path; `None` for all.

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
    ids: set[str] = set()
    known: set[str] = set()
    omissions = _Omissions()
    for source in _sources(tree):
        address, own_id = source.address, source.id
        names = {own_id, address}
        known |= names
        if wanted is not None and names.isdisjoint(wanted):
            omissions.add(NOT_NAMED, source, chosen=True)
            continue
        if len(found) >= MOST_OPERATIONS:
            omissions.add(TOO_MANY, source)
            continue
        if own_id in ids:
            # Named by its address it is unmistakable, and gets a name of its own.
            if wanted is None or address not in wanted:
                omissions.add(TWICE, source)
                continue
            own_id = source.default_id
        try:
            made = reader.operation(source, own_id)
        except (ValueError, TypeError, RecursionError) as error:
            text = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
            omissions.add(encodable(text), source)
            continue
        if made.name in found:
            omissions.add(TWICE, source)
            continue
        ids.add(own_id)
        found[made.name] = made
    servers = (each for each in _listed(tree.get("servers")) if isinstance(each, dict))
    return OpenApiDocument(
        tuple(found.values()),
        tuple(_address_of(each) for each in servers if isinstance(each.get("url"), str)),
        omissions.all,
        tuple(sorted(set(wanted or ()) - known)),
    )


def _address_of(server: Json) -> str:
    """Return the URL of a server, with the defaults of its variables."""
    variables = server.get("variables")
    known = variables if isinstance(variables, dict) else {}

    def value(found: re.Match[str]) -> str:
        given = known.get(found[1])
        default = given.get("default") if isinstance(given, dict) else None
        return default if isinstance(default, str) else found[0]

    found: str = encodable(IN_PATH.sub(value, server["url"]))
    return found


@dataclass(frozen=True, slots=True)
class _Source:
    """An operation as it stands in the document."""

    path: str
    method: str
    item: Json
    operation: Json

    @property
    def address(self) -> str:
        """The method and the path."""
        return f"{self.method.upper()} {self.path}"

    @property
    def default_id(self) -> str:
        """Its id if the document gives none."""
        return f"{self.method}_{self.path.strip('/')}"

    @property
    def id(self) -> str:
        """Its id."""
        given = self.operation.get("operationId")
        return str(given) if isinstance(given, str | int) and given else self.default_id

    @property
    def shown(self) -> str:
        """The id, the method and the path, in one line."""
        address = one_line(encodable(self.address), MOST_NAME_CHARACTERS)
        if "operationId" not in self.operation:
            return address
        return f"{one_line(encodable(self.id), MOST_NAME_CHARACTERS)} ({address})"


class _Omissions:
    """Collects the operations that are left out, by reason."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, bool], list[str]] = {}
        self._counts: Counter[tuple[str, bool]] = Counter()
        self._left = MOST_NAMED

    def add(self, reason: str, source: _Source, *, chosen: bool = False) -> None:
        """Add an operation; `chosen` if the configuration itself leaves it out."""
        key = reason, chosen
        if key not in self._counts and len(self._counts) >= MOST_REASONS:
            key = OTHER, chosen
        self._counts[key] += 1
        names = self._names.setdefault(key, [])
        if self._left > 0:
            self._left -= 1
            names.append(source.shown)

    @property
    def all(self) -> tuple[Omission, ...]:
        """The omissions, one for each reason."""
        return tuple(
            Omission(reason, tuple(self._names[reason, chosen]), count, chosen)
            for (reason, chosen), count in self._counts.items()
        )


def _sources(tree: Json) -> Iterator[_Source]:
    """Yield the operations of a document."""
    paths = tree.get("paths")
    for path, item in paths.items() if isinstance(paths, dict) else ():
        for method in METHODS if isinstance(item, dict) else ():
            if isinstance(item.get(method), dict):
                yield _Source(path, method, item, item[method])


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


class _OperationReader:
    def __init__(self, service: str, tree: Json) -> None:
        self._service = service
        self._schemas = SchemaReader(tree, old=str(tree["openapi"]).startswith("3.0"))

    def operation(self, source: _Source, operation_id: str) -> Operation:
        """Return an operation, with as much of its schema as a tool may have.

        Raises:
            ValueError: It cannot be used; the text continues a sentence.
        """
        for deepest in DEPTHS:
            self._schemas.begin(deepest)
            try:
                return self._operation(source, operation_id)
            except SchemaTooLongError:
                if deepest == DEPTHS[-1]:
                    raise
        raise AssertionError("the last depth returns or raises")

    def _operation(self, source: _Source, operation_id: str) -> Operation:
        path = _checked_path(source.path)
        parameters: list[Parameter] = []
        properties: Json = {}
        required: list[str] = []
        for each in self._parameters(source):
            parameter = _parameter(each, taken=properties)
            if parameter is None:
                if each.get("required") and each.get("in") != "header":
                    shown = one_line(encodable(str(each.get("name"))), 50)
                    raise ValueError(f"its parameter {shown} cannot be sent")
                continue
            parameters.append(parameter)
            properties[parameter.argument] = self._described(each)
            if each.get("required") or parameter.where == "path":
                required.append(parameter.argument)
        body = None
        if "requestBody" in source.operation:
            request = self._schemas.resolved(source.operation["requestBody"])
            body = read_body(request, self._schemas)
        if body is not None:
            if BODY in properties:
                raise ValueError("it has a parameter called body, and a body")
            properties[BODY] = body.schema
            parameters.append(Parameter(argument=BODY, name="", where="body"))
            required += [BODY] * body.required
        missing = set(IN_PATH.findall(path)) - {p.name for p in parameters if p.where == "path"}
        if missing:
            raise ValueError(f"nothing says what {', '.join(sorted(missing))} in its path is")
        text = source.operation.get("description") or source.operation.get("summary") or ""
        method = source.method.upper()
        return Operation(
            id=encodable(operation_id),
            name=name_for(self._service, encodable(operation_id)),
            method=method,
            path=path,
            address=encodable(source.address),
            description=plain(
                f"{encodable(str(text))}\n({method} {path} of {self._service})".strip(),
                limit=MOST_DESCRIPTION_CHARACTERS,
            ),
            schema=_checked_schema(properties, required),
            parameters=tuple(parameters),
            body=body.kind if body else BodyKind.JSON,
            fields=body.fields if body else {},
        )

    def _parameters(self, source: _Source) -> list[Json]:
        found: dict[tuple[str, str], Json] = {}
        for part in (source.item, source.operation):
            for each in map(self._schemas.resolved, _listed(part.get("parameters"))):
                # A parameter of the operation replaces the one of the path.
                found[str(each.get("name")), str(each.get("in"))] = each
        return list(found.values())

    def _described(self, parameter: Json) -> Json:
        schema = parameter.get("schema")
        if schema is None:
            contents = parameter.get("content")
            first: object = next(iter(contents.values()), {}) if isinstance(contents, dict) else {}
            schema = first.get("schema", {}) if isinstance(first, dict) else {}
        made = self._schemas.schema(schema)
        if isinstance(parameter.get("description"), str):
            made["description"] = plain(encodable(parameter["description"]), limit=500)
        return made


def _checked_path(path: str) -> str:
    """Return a path with unusual characters encoded.

    Raises:
        ValueError: It does not stay below the base of the service.
    """
    if not path.startswith("/"):
        raise ValueError("its path does not begin with /")
    if not path.isprintable() or set(path) & set("#\\"):
        raise ValueError("its path has characters that no address has")
    if leads_up(path.partition("?")[0]):
        raise ValueError("its path leads out of the service")
    # The names in braces are replaced as they stand.
    pieces = _BRACES.split(path)
    return "".join(
        quote(each, safe=_PATH_SIGNS) if n % 2 == 0 else each for n, each in enumerate(pieces)
    )


def _checked_schema(properties: Json, required: list[str]) -> Json:
    schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    # Neither a model nor a service takes lone surrogates.
    schema = encodable(schema)
    if len(json.dumps(schema)) > MOST_SCHEMA_CHARACTERS:
        raise SchemaTooLongError
    check_foreign_schema(schema, most=MOST_SCHEMA_CHARACTERS)
    return schema


def _parameter(source: Json, taken: Mapping[str, object]) -> Parameter | None:
    """Return the place of a parameter; `None` for one that a model must not set."""
    name, where = source.get("name"), source.get("in")
    if not isinstance(name, str) or where not in ("path", "query", "header"):
        return None
    name = encodable(name)
    if where == "header" and (name.lower() in _OUR_HEADERS or not _HEADER.fullmatch(name)):
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
