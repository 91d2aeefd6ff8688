"""Defines the settings under `slack:` (no SDK)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    Field,
    SecretStr,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from bot.setting_types import DirectMessages, EncryptionKey, plain_secret
from bot.values import PlatformSettings

API_URL = "https://slack.com/api/"

HTTP_NEEDS_SIGNATURES = (
    "`slack.mode: http` needs `slack.signing_secret` (or SLACK_SIGNING_SECRET): without it anybody "
    "could pose as Slack. It stands on the page Basic Information of api.slack.com/apps"
)

_COMMAND = r"^/[a-z0-9_-]{1,31}$"


#: The first characters of tokens, and the place where Slack shows the tokens.
_PREFIXES = {
    "bot_token": (
        ("xoxb-", "xoxe.xoxb-"),
        "it is the Bot User OAuth Token on the page OAuth & Permissions of api.slack.com/apps",
    ),
    "app_token": (
        ("xapp-",),
        "it is made on the page Basic Information of api.slack.com/apps under App-Level Tokens, "
        "with the scope connections:write",
    ),
}
#: A workspace, or an organisation with all of its workspaces.
Workspace = Annotated[str, StringConstraints(pattern=r"^[TE][A-Z0-9]{2,20}$")]
#: A channel, or a group conversation.
Channel = Annotated[str, StringConstraints(pattern=r"^[CG][A-Z0-9]{2,20}$")]
#: A user, whose id is unique only together with a workspace.
User = Annotated[str, StringConstraints(pattern=r"^([TE][A-Z0-9]{2,20}:)?[UW][A-Z0-9]{2,20}$")]
#: A slash command in the form that Slack allows.
Command = Annotated[str, StringConstraints(pattern=_COMMAND)]


class SlackSettings(PlatformSettings):
    """Everything under `slack:`."""

    section: ClassVar[str] = "slack"
    title: ClassVar[str] = "Slack"
    about: ClassVar[str] = "The bot on Slack: docs/slack.md leads through it."
    needs: ClassVar[str] = "`slack.bot_token` (or the variable SLACK_BOT_TOKEN)"
    guide: ClassVar[str] = "docs/slack.md"
    environment: ClassVar[Mapping[str, str]] = {
        "bot_token": "SLACK_BOT_TOKEN",
        "app_token": "SLACK_APP_TOKEN",
        "signing_secret": "SLACK_SIGNING_SECRET",
        "client_id": "SLACK_CLIENT_ID",
        "client_secret": "SLACK_CLIENT_SECRET",
        "encryption_key": "SLACK_ENCRYPTION_KEY",
    }
    account: ClassVar[str] = "[TE][A-Z0-9]{4,}:[UW][A-Z0-9]{4,}"
    account_form: ClassVar[str] = (
        "write `slack:` with the ids of the workspace and the member, like `slack:T0123:U0123`"
    )
    accounts_of_workspaces: ClassVar[bool] = True
    server: ClassVar[str] = "[TE][A-Z0-9]{2,20}"
    server_form: ClassVar[str] = "`slack:` and the id of the workspace (T…)"
    channel: ClassVar[str] = "[CGD][A-Z0-9]{2,20}"
    channel_form: ClassVar[str] = "`slack:` and the ids of workspace and channel (T…:C…)"
    direct: ClassVar[str | None] = "D"
    open_threads: ClassVar[bool] = True

    at_start: ClassVar[tuple[str, ...]] = (
        *("bot_token", "app_token", "mode", "host", "port", "public_url"),
        *("client_id", "client_secret", "state_seconds", "encryption_key"),
        *("command", "subagents_command", "edit_seconds", "api_url"),
    )

    bot_token: SecretStr | None = None
    """The bot's token in its one workspace (xoxb-…), from the page OAuth & Permissions. Leave it
    out when people install the bot themselves, with `client_id`.
    """

    app_token: SecretStr | None = None
    """Opens the connections of Socket Mode (xapp-…), from the page Basic Information, under
    App-Level Tokens.
    """

    signing_secret: SecretStr | None = None
    """Tells Slack's requests from others', from the page Basic Information; needed with `mode:
    http`.
    """

    mode: Literal["socket", "http"] = "socket"
    """The way in which Slack reaches the bot: over connections that the bot opens (socket), or at a
    public address (http).
    """

    host: str = Field("127.0.0.1", min_length=1)
    """The address at which `mode: http` listens."""

    port: int = Field(3000, ge=0, le=65535)
    """The port at which `mode: http` listens."""

    public_url: str | None = Field(None, pattern=r"^https?://[^\s/]+(/[^\s]*[^/\s])?$")
    """The address under which Slack and browsers reach `host` and `port`; needed with `client_id`.
    """

    client_id: str | None = Field(None, pattern=r"^[0-9]+\.[0-9]+$")
    """Of the app, from the page Basic Information: with it many workspaces can install the bot from
    the page /slack/install.
    """

    client_secret: SecretStr | None = None
    """Of the app, from the page Basic Information; goes with `client_id`."""

    state_seconds: int = Field(600, ge=60, le=3600)
    """Time for a user to complete an installation, in seconds."""

    encryption_key: EncryptionKey = None
    """Encrypts the tokens of the workspaces in the database: 32 bytes in URL-safe base64; goes with
    `client_id`.
    """

    workspaces: tuple[Workspace, ...] | None = None
    """Workspaces (T…) or organisations (E…) in which the bot answers; null: all in which it is
    installed, []: none.
    """

    channels: tuple[Channel, ...] | None = None
    """Channels (C…) in which the bot answers; null: all, []: none. Direct messages are not
    affected.
    """

    users: tuple[User, ...] | None = None
    """Users whom the bot answers: their member id (U…) or, with `client_id`, workspace:id (T…:U…);
    null: everyone, []: nobody.
    """

    direct_messages: DirectMessages = "members"
    """The users who are answered in direct messages: members of a server or workspace with the bot,
    those whose code an admin confirms with the command pair (paired), or nobody.
    """

    command: Command = "/retinue"
    """The slash command for everything, as the app's manifest names it."""

    subagents_command: Command = "/subagents"
    """The slash command for runs, as the app's manifest names it."""

    edit_seconds: float = Field(3.0, ge=2.5, le=60)
    """The least time between two edits of one message."""

    api_url: str = Field(API_URL, pattern=r"^https?://[^\s]+/$")
    """The address of Slack's Web API; another one for a proxy. It ends with a slash."""

    @property
    def configured(self) -> bool:
        """True if Slack is configured."""
        return bool(plain_secret(self.bot_token)) or self.client_id is not None

    @property
    def many_workspaces(self) -> bool:
        """True if many workspaces install the bot, each with its own token."""
        return self.client_id is not None

    @property
    def authorize_url(self) -> str:
        """The address of Slack's page that installs the bot."""
        return self.api_url.removesuffix("api/") + "oauth/v2/authorize"

    @field_validator(*_PREFIXES)
    @classmethod
    def _has_prefix(cls, token: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        prefixes, advice = _PREFIXES[str(info.field_name)]
        if (given := plain_secret(token)) and not given.startswith(prefixes):
            raise ValueError(f"must begin with {prefixes[0]}: {advice}")
        return token

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.configured:
            return self
        if self.mode == "http" and not plain_secret(self.signing_secret):
            raise ValueError(HTTP_NEEDS_SIGNATURES)
        if self.mode == "socket" and not plain_secret(self.app_token):
            raise ValueError(
                "`slack.mode: socket` needs `slack.app_token` (or SLACK_APP_TOKEN): make one on "
                "the page Basic Information of api.slack.com/apps under App-Level Tokens, with "
                "the scope connections:write"
            )
        if self.command == self.subagents_command:
            raise ValueError("`slack.command` and `slack.subagents_command` must differ")
        if not self.many_workspaces:
            return self
        if plain_secret(self.bot_token):
            raise ValueError(
                "`slack.bot_token` is for one workspace and `slack.client_id` for many: leave one "
                "of them out"
            )
        if self.mode != "http":
            raise ValueError(
                "`slack.client_id` needs `slack.mode: http`: people install the bot from a web "
                "page, which takes a public address anyway"
            )
        needed = {
            "client_secret": plain_secret(self.client_secret),
            "encryption_key": self.encryption_key,
            "public_url": self.public_url,
        }
        if missing := [f"`slack.{name}`" for name, given in needed.items() if not given]:
            raise ValueError(f"`slack.client_id` needs {' and '.join(missing)} as well")
        if bare := [user for user in self.users or () if ":" not in user]:
            raise ValueError(
                f"`slack.users` must say in which workspace {bare[0]} is, as T…:{bare[0]}: in "
                "another workspace the same id may be another user"
            )
        return self
