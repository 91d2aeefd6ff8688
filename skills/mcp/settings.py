"""Settings of MCP servers (`mcp:`), and of the tools that users and runs may use."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)

from bot.setting_types import EncryptionKey, check_runs, named
from bot.values import Json, Settings, SkillSettings
from skills.mcp.files import read_servers

_Text = Annotated[str, StringConstraints(min_length=1)]


class McpOAuthSettings(Settings):
    """The sign-in of each user at a server."""

    client_id: str = ""
    """The id of the bot there; empty: the bot registers itself, where that is offered."""

    client_secret: SecretStr | None = None
    """The secret that belongs to the id, if there is one."""

    scopes: tuple[str, ...] = ()
    """The permissions to ask for; by default those that the server names."""

    private_addresses: bool = False
    """True if the sign-in may be at a private address and without TLS, as in a network of your own.
    """


class McpServerSettings(Settings):
    """One server: a program that the bot starts, or an address."""

    command: tuple[_Text, ...] = ()
    """The program and its arguments, like [mcp-server-time, --local-timezone, UTC]. It runs with
    the rights of the bot.
    """

    environment: dict[str, SecretStr] = Field({})
    """Variables for the program. Beside these it gets PATH, HOME and the like, and none of the
    bot's secrets.
    """

    folder: str | None = None
    """The folder in which the program runs; null for here."""

    url: str | None = None
    """The address of a server that speaks streamable HTTP."""

    headers: dict[str, SecretStr] = Field({})
    """Sent with every request, like {Authorization: "Bearer ${TOKEN}"}."""

    oauth: McpOAuthSettings | None = None
    """Each user signs in (OAuth), and calls are made with the rights of that user: {} for the
    defaults, null for a server without sign-in. Needs `mcp.encryption_key`.
    """

    tools: tuple[str, ...] | None = None
    """The tools to take over, by their names; null for all."""

    runs: tuple[str, ...] = ()
    """The tools that subagents may use as well; by default none."""

    confirm: tuple[str, ...] = ()
    """The tools that are asked of the user before each call."""

    read_only: tuple[str, ...] = ()
    """The tools that change nothing, so that a call may be made again after a crash. What the
    server says of itself does not count.
    """

    timeout_seconds: float = Field(60, gt=0, le=3600)
    """The longest that a call takes."""

    connect_seconds: float = Field(30, gt=0, le=600)
    """The longest that the server takes to answer at the start."""

    enabled: bool = True
    """Whether the bot connects to it."""

    review_first: bool = False
    """Whether also the tools that it offers at first wait for an admin's approval. For servers of
    `mcp.files` it is true.
    """

    @property
    def shown(self) -> str:
        """The program, or the URL's scheme and host, without parts that may be secret."""
        if self.url:
            parts = urlsplit(self.url)
            return f"{parts.scheme}://{parts.netloc}"
        return self.command[0]

    @property
    def has_credential(self) -> bool:
        """True if its calls use a secret of the bot, or one that a user gave it."""
        return bool(self.headers or self.environment or self.oauth)

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is not None:
            parts = urlsplit(value)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
                raise ValueError(
                    "must be an address like https://host/mcp; a password belongs into `headers`"
                )
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> "McpServerSettings":
        if bool(self.command) == bool(self.url):
            raise ValueError("must have either `command` or `url`")
        if self.url and (self.environment or self.folder):
            raise ValueError("has a `url`, so `environment` and `folder` mean nothing")
        if self.command and self.headers:
            raise ValueError("has a `command`, so `headers` mean nothing; use `environment`")
        if self.oauth and not self.url:
            raise ValueError("has `oauth`, which needs a `url`")
        if self.oauth and any(key.lower() == "authorization" for key in self.headers):
            raise ValueError("has `oauth`, so `headers` must not have Authorization")
        check_runs(self.runs, self.confirm)
        return self


class McpSettings(SkillSettings):
    """Everything under `mcp:`."""

    section: ClassVar[str] = "mcp"
    about: ClassVar[str] = "MCP servers, whose tools the agents may use: docs/skills.md."
    warned_secrets: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("servers", "*", "headers", "*"),
        ("servers", "*", "environment", "*"),
        ("servers", "*", "oauth", "client_secret"),
        ("encryption_key",),
    )

    servers: Annotated[dict[str, McpServerSettings], named("server")] = Field({})
    """MCP servers by name, like {time: {command: [mcp-server-time], runs: [get_current_time]}}.
    Their tools are called mcp__time__get_current_time.
    """

    files: tuple[str, ...] = ()
    """JSON files with `mcpServers`, like [.mcp.json], as Claude Code and others have them. Entries
    of `servers` with the same name are added to theirs. None of them is started, and none of their
    tools is used, before an admin approves it.
    """

    encryption_key: EncryptionKey = None
    """Encrypts the tokens of users in the database: 32 random bytes in URL-safe base64, such as
    "${RETINUE_MCP_KEY}". Tokens of another key are lost: users sign in again.
    """

    public_url: str | None = Field(None, pattern=r"^https://[^/?#@\s]+(/[^?#\s]*)?$")
    """The public address at which browsers reach `host` and `port` after a sign-in, like
    https://bot.example. null: users copy the address of an empty page instead.
    """

    host: str = "127.0.0.1"
    """The address for the page after a sign-in; a web server in front of it has `public_url`."""

    port: int | None = Field(None, ge=1, le=65535)
    """Its port; null for none. Of several processes on a machine the first one has it."""

    #: The entries of servers that files name, as the files have them, with those of `servers`.
    _written: dict[str, Json] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _with_files(cls, given: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        files = given.get("files") if isinstance(given, dict) else None
        own = (given.get("servers") or {}) if isinstance(given, dict) else None
        if not isinstance(files, list | tuple) or not isinstance(own, dict):
            return handler(given)
        assert isinstance(given, dict)
        servers: dict[str, object] = {}
        written: dict[str, Json] = {}
        for file in (each for each in files if isinstance(each, str)):
            found = read_servers(file, os.environ)
            if twice := sorted(set(servers) & set(found.servers)):
                raise ValueError(f"{file}: another file has a server {twice[0]!r} too")
            servers |= found.servers
            written |= found.written
        for name, entry in own.items():
            there = servers.get(name)
            if isinstance(there, dict) and isinstance(entry, dict):
                servers[name], written[name] = {**there, **entry}, {**written[name], **entry}
            else:
                servers[name] = entry
        settings = handler({**given, "servers": servers})
        settings._written = written  # noqa: SLF001 - of the same class
        return settings

    @model_validator(mode="after")
    def _can_sign_in(self) -> Self:
        signed = [name for name, each in self.servers.items() if each.oauth and each.enabled]
        if signed and self.encryption_key is None:
            raise ValueError(
                f"`mcp.servers.{signed[0]}.oauth` needs `mcp.encryption_key`, which encrypts the "
                "tokens of users"
            )
        if (self.public_url is None) != (self.port is None):
            raise ValueError("`mcp.public_url` and `mcp.port` belong together: set both or none")
        return self

    @property
    def written(self) -> Mapping[str, Json]:
        """The servers that files name, without the values of variables: an admin starts them."""
        return self._written

    @property
    def trusted_files(self) -> tuple[Path, ...]:
        """The files that name programs."""
        return tuple(Path(file) for file in self.files)

    @property
    def is_on(self) -> bool:
        """True if a server is enabled."""
        return any(each.enabled for each in self.servers.values())

    @property
    def live_skills(self) -> tuple[str, ...]:
        """The names of the skills, one for each server."""
        return tuple(f"mcp__{name}" for name in self.servers)
