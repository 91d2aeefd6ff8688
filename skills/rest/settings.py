"""Settings of REST services (`rest:`), and of the operations that users and runs may use."""

import re
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from bot.setting_types import check_runs, named
from bot.values import Json, Settings, SkillSettings

_Path = Annotated[str, StringConstraints(pattern=r"^/")]
Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


class RequestSettings(Settings):
    """One request that is written down by hand."""

    description: str
    """The use of the request: all that the model reads about it."""

    method: Method = "GET"
    """GET, HEAD, POST, PUT, PATCH or DELETE."""

    path: _Path
    """Below the base; parameters in braces: /v1/forecast/{city}."""

    parameters: dict[str, Json] = Field({})
    """A JSON Schema for each argument: {city: {type: string}}."""

    query: tuple[str, ...] = ()
    """The arguments that go into the query."""

    body: tuple[str, ...] = ()
    """The arguments that go into the JSON body."""

    optional: tuple[str, ...] = ()
    """The arguments that may be left out."""

    @model_validator(mode="after")
    def _uses_all(self) -> "RequestSettings":
        in_path = set(re.findall(r"\{([^{}]*)\}", self.path))
        placed = [*in_path, *self.query, *self.body]
        if wrong := sorted(set(placed) ^ set(self.parameters)):
            raise ValueError(
                f"has {', '.join(wrong)}, which must stand in `parameters` and in one of `path`, "
                "`query` and `body`"
            )
        if len(placed) != len(set(placed)):
            raise ValueError("has an argument in more than one of `path`, `query` and `body`")
        if wrong := sorted({*self.optional} - {*self.query, *self.body}):
            raise ValueError(f"cannot leave out {', '.join(wrong)}")
        return self


class RestServiceSettings(Settings):
    """One service: an OpenAPI document, requests written down by hand, or both."""

    document: str | None = None
    """An OpenAPI 3 document as JSON or YAML: a file, or an address."""

    base: str | None = None
    """The address of the service, like https://host/api: all requests go there. null for what the
    document says, if that is a file, or lies at the same origin as it.
    """

    headers: dict[str, SecretStr] = Field({})
    """Sent with every request, like {Authorization: "Bearer ${TOKEN}"}. A secret that stands in the
    file itself is refused.
    """

    query: dict[str, SecretStr] = Field({})
    """Sent in the query of every request, like {key: "${KEY}"}. A secret that stands in the file
    itself is refused.
    """

    requests: dict[str, RequestSettings] = Field({})
    """Requests written down by hand, by name."""

    operations: tuple[str, ...] | None = None
    """The operations of the document to take over, by `operationId`, or by method and path;
    null for the first 128.
    """

    runs: tuple[str, ...] = ()
    """The operations that subagents may use as well; by default none."""

    confirm: tuple[str, ...] = ()
    """The operations that are asked of the user before each call."""

    timeout_seconds: float = Field(30, gt=0, le=600)
    """The longest that a call takes."""

    max_kilobytes: int = Field(1024, ge=1, le=20_480)
    """The most that is read."""

    max_upload_kilobytes: int = Field(20_480, ge=1, le=102_400)
    """The most that the files of one call may have together."""

    enabled: bool = True
    """Whether the bot uses it."""

    @field_validator("base")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "")
        wrong = parts.username or parts.query or parts.fragment or not parts.hostname
        if value is not None and (wrong or parts.scheme not in ("http", "https")):
            raise ValueError(
                "must be an address like https://host/api, without query; secrets belong into "
                "`headers` or `query`"
            )
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> "RestServiceSettings":
        if not self.document and not self.requests:
            raise ValueError("must have a `document`, or `requests`")
        if self.requests and not self.base:
            raise ValueError("has `requests`, so it must say where: `base`")
        check_runs(self.runs, self.confirm)
        return self


class RestSettings(SkillSettings):
    """Everything under `rest:`."""

    section: ClassVar[str] = "rest"
    about: ClassVar[str] = "REST services, whose operations become tools: docs/skills.md."
    refused_secrets: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("services", "*", "headers", "*"),
        ("services", "*", "query", "*"),
    )

    services: Annotated[dict[str, RestServiceSettings], named("service")] = Field({})
    """Services by name, like {weather: {document: weather.yaml, base: "https://host/api", runs:
    [forecast]}}. Their tools are called rest__weather__forecast.
    """

    @property
    def is_on(self) -> bool:
        """True if a service is enabled."""
        return any(each.enabled for each in self.services.values())

    @property
    def live_skills(self) -> tuple[str, ...]:
        """The names of the skills, one for each service."""
        return tuple(f"rest__{name}" for name in self.services)
