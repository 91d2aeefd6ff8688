"""The settings under `discord:`; reading them needs no SDK."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, StringConstraints, model_validator

from bot.setting_types import DirectMessages, plain_secret
from bot.values import PlatformSettings

#: Enough shards for all servers of Discord, at 2,500 each, which is the most of a shard.
MOST_SHARDS = 10_000
API_URL = "https://discord.com/api/v10"

_SNOWFLAKE = r"^[0-9]{5,20}$"


def _read_id(value: object) -> str:
    text = str(value)
    if type(value) not in {int, str} or not re.match(_SNOWFLAKE, text):
        raise ValueError(
            "must be an id, which has digits only: switch on Developer Mode in Discord's settings "
            "(Advanced), right-click the server, channel, role or user, and choose Copy ID"
        )
    return text


#: A Discord id. YAML parses an unquoted id as a number; numbers and texts are accepted.
Snowflake = Annotated[str, BeforeValidator(_read_id), StringConstraints(pattern=_SNOWFLAKE)]


class DiscordSettings(PlatformSettings):
    """Everything under `discord:`."""

    section: ClassVar[str] = "discord"
    title: ClassVar[str] = "Discord"
    about: ClassVar[str] = "The bot on Discord: docs/discord.md leads through it."
    needs: ClassVar[str] = "`discord.token` (or the variable DISCORD_TOKEN)"
    guide: ClassVar[str] = "docs/discord.md"
    environment: ClassVar[Mapping[str, str]] = {"token": "DISCORD_TOKEN"}
    account: ClassVar[str] = "[0-9]{15,21}"
    account_form: ClassVar[str] = (
        "write `discord:` and the number that Copy User ID gives, as docs/discord.md says"
    )
    server: ClassVar[str] = "[0-9]{5,20}"
    server_name: ClassVar[str] = "server"
    server_form: ClassVar[str] = "`discord:` and the number that Copy Server ID gives"
    channel: ClassVar[str] = "[0-9]{5,20}"
    channel_form: ClassVar[str] = "`discord:` and the number that Copy Channel ID gives"
    direct: ClassVar[str | None] = ""

    at_start: ClassVar[tuple[str, ...]] = (
        *("token", "commands", "edit_seconds"),
        *("shard_count", "shard_ids", "api_url", "gateway_url"),
    )

    token: SecretStr | None = None
    """The bot's token, from the page Bot of the developer portal."""

    threads: bool = True
    """A mention in a channel opens a thread, where the conversation continues without mentions.
    Off: answers are replies in the channel.
    """

    guilds: tuple[Snowflake, ...] | None = None
    """Servers (their ids) where the bot answers, and whose members it answers in direct messages;
    null: all, []: none.
    """

    channels: tuple[Snowflake, ...] | None = None
    """Channels where the bot answers, their threads included, or whole categories; null: all, []:
    none. Direct messages are not affected.
    """

    roles: tuple[Snowflake, ...] | None = None
    """Roles whose members the bot answers, beside `users`; null for both: everyone, []: nobody."""

    users: tuple[Snowflake, ...] | None = None
    """Users whom the bot answers, beside `roles`; null for both: everyone, []: nobody."""

    admin_roles: tuple[Snowflake, ...] = ()
    """Roles whose members are admins of the server of the role, beside `access.place_admins`."""

    direct_messages: DirectMessages = "members"
    """The users who are answered in direct messages: members of a server or workspace with the bot,
    those whose code an admin confirms with the command pair (paired), or nobody.
    """

    commands: Annotated[
        Literal["global", "guilds", "off"],
        # YAML parses an unquoted `off` as False.
        BeforeValidator(lambda value: "off" if value is False else value),
    ] = "global"
    """The place where slash commands are registered: everywhere (global), only in `guilds`
    (guilds), or by another process (off).
    """

    edit_seconds: float = Field(1.5, ge=1.2, le=60)
    """The least time between two edits of one message."""

    shard_count: int | None = Field(None, ge=1, le=MOST_SHARDS)
    """Number of shards among which the servers are divided; null: no sharding."""

    shard_ids: tuple[Annotated[int, Field(ge=0, lt=MOST_SHARDS)], ...] = ()
    """The shards that this process serves, counted from 0; none: all."""

    api_url: str = Field(API_URL, pattern=r"^https?://[^\s]+[^/\s]$")
    """The address of Discord's REST API: another one for a proxy that shares rate limits."""

    gateway_url: str | None = Field(None, pattern=r"^wss?://\S+$")
    """The address of Discord's gateway; null: Discord's own."""

    @property
    def configured(self) -> bool:
        """True if a token is set, which enables Discord."""
        return bool(plain_secret(self.token))

    @model_validator(mode="after")
    def _shards_fit(self) -> Self:
        if self.shard_ids and self.shard_count is None:
            raise ValueError("`discord.shard_ids` needs `discord.shard_count`")
        if self.shard_count is not None:
            wrong = [each for each in self.shard_ids if not 0 <= each < self.shard_count]
            if wrong:
                raise ValueError(
                    f"`discord.shard_ids` goes from 0 to {self.shard_count - 1}, not {wrong[0]}"
                )
        if self.commands == "guilds" and not self.guilds:
            raise ValueError("`discord.commands: guilds` needs `discord.guilds`")
        return self
