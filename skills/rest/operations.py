"""The operations of REST services: requests that can be made (pure)."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote

from bot.agent.plain import plain
from bot.catalog.schemas import tool_name
from bot.values import Json
from skills.rest.bodies import BodyKind, FormField
from skills.rest.settings import RequestSettings

MOST_DESCRIPTION_CHARACTERS = 2_000
#: Most operations of a service; a longer document needs a choice of them.
MOST_OPERATIONS = 128
#: Most omitted operations of a document that are named; the others are counted.
MOST_NAMED = 2_000
#: The argument that holds the body.
BODY = "body"
_SLASH = re.compile(r"[/\\]")
_DECODINGS = 3
IN_PATH = re.compile(r"\{([^{}]*)\}")

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
        address: The method and the path in the document, by which the configuration may name it.
        schema: The schema of the arguments.
        body: The format of the body.
        fields: The fields of a form that are not sent in the default way.
    """

    id: str
    name: str
    method: str
    path: str
    address: str
    description: str
    schema: Json
    parameters: tuple[Parameter, ...]
    body: BodyKind = BodyKind.JSON
    fields: Mapping[str, FormField] = field(default_factory=dict)

    @property
    def sends_files(self) -> bool:
        """True if it can send files of the workspace."""
        return any(each.is_file for each in self.fields.values())

    def is_in(self, names: Collection[str]) -> bool:
        """Return True if one of these names of the configuration denotes the operation."""
        return self.id in names or self.address in names


@dataclass(frozen=True, slots=True)
class Omission:
    """Operations of a document that are left out for one reason.

    Attributes:
        reason: A clause.
        names: The operations by id, method and path; at most `MOST_NAMED`.
        count: The number of the operations.
        chosen: Whether the configuration itself leaves them out.
    """

    reason: str
    names: tuple[str, ...]
    count: int
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class OpenApiDocument:
    """The content of a document.

    Attributes:
        operations: Those that are taken over.
        servers: The URLs of the service.
        omitted: Those that are left out.
        unknown: The names in the configuration that denote none of its operations.
    """

    operations: tuple[Operation, ...]
    servers: tuple[str, ...]
    omitted: tuple[Omission, ...] = ()
    unknown: tuple[str, ...] = ()


def leads_up(text: str) -> bool:
    """Return True if a text has a dot segment, which a server could resolve as a step up.

    Some servers decode a path before they resolve it, and some decode it twice.
    """
    for _ in range(_DECODINGS):
        if not {".", ".."}.isdisjoint(each.strip() for each in _SLASH.split(text)):
            return True
        text = unquote(text)
    return False


def name_for(service: str, operation: str) -> str:
    """Return the name of a tool: `rest__service__operation`, of at most 64 plain characters."""
    return tool_name(f"rest__{service}__", operation)


def by_hand(service: str, name: str, request: RequestSettings) -> Operation:
    """Return a request of the configuration as an operation."""
    places: dict[str, Where] = dict.fromkeys(request.query, "query")
    places |= dict.fromkeys(IN_PATH.findall(request.path), "path")
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
        address=f"{request.method} {request.path}",
        description=plain(request.description, limit=MOST_DESCRIPTION_CHARACTERS),
        schema=schema,
        parameters=parameters,
    )
