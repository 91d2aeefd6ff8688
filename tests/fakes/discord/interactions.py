"""Commands, clicks and forms: what a user does with them, and how the bot answers."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from bot.values import Json
from tests.fakes.discord.gateway import Event
from tests.fakes.discord.options import command_data
from tests.fakes.discord.payloads import (
    channel_json,
    member_json,
    message_json,
    user_json,
)
from tests.fakes.discord.people import People
from tests.fakes.discord.things import TEXT_INPUT, Channel, Message, User, parts

COMMAND, COMPONENT, COMPLETION, SUBMIT = 2, 3, 4, 5
ANSWER, LATER, UPDATE_LATER, UPDATE, CHOICES, MODAL = 4, 5, 6, 7, 8, 9


@dataclass(eq=False)
class Modal:
    """A form that a user sees.

    Attributes:
        labels: What stands above its fields.
        inputs: Its text fields.
    """

    opened_by: "Interaction"
    payload: Json

    @property
    def custom_id(self) -> str:
        """By which the bot knows it."""
        return str(self.payload["custom_id"])

    @property
    def title(self) -> str:
        """What stands at its top."""
        return str(self.payload["title"])

    @property
    def inputs(self) -> list[Json]:
        """Its text fields."""
        return [part for part in parts(self.payload["components"]) if part["type"] == TEXT_INPUT]

    @property
    def labels(self) -> list[str]:
        """What stands above its fields."""
        return [part["label"] for part in parts(self.payload["components"]) if part.get("label")]


@dataclass(eq=False)
class Interaction:
    """Something that a user did, and what the bot made of it.

    Attributes:
        kind: 2 a command, 3 a click, 4 a completion, 5 a form.
        source: The message whose button was clicked.
        response: The type of the first answer; 0 for none yet.
        messages: What was answered, in order, as it stands now.
        modal: The form that was opened.
        choices: Names and values that were offered.
        updated: The message whose button was clicked was changed by that.
        guest: The bot is no member of the server: it is installed for the user.
        expired: Discord does not know it any more.
    """

    id: int
    token: str
    kind: int
    user: User
    channel: Channel
    world: People
    source: Message | None = None
    guest: bool = False
    response: int = 0
    messages: list[Message] = field(default_factory=list)
    followups: int = 0
    modal: Modal | None = None
    choices: list[tuple[str, str | int | float]] = field(default_factory=list)
    updated: bool = False
    expired: bool = False
    began: float = field(default_factory=time.monotonic)

    @property
    def deferred(self) -> bool:
        """Whether the bot first said that it answers later."""
        return self.response in {LATER, UPDATE_LATER}

    @property
    def ephemeral(self) -> bool:
        """Whether the user alone sees what was answered."""
        return bool(self.messages) and all(message.ephemeral for message in self.messages)

    @property
    def age(self) -> float:
        """Seconds since it happened."""
        return time.monotonic() - self.began

    @property
    def failed(self) -> bool:
        """Whether the user was told that the application did not respond."""
        return not self.response and (self.expired or self.age > self.world.interaction_seconds)

    @property
    def is_done(self) -> bool:
        """Whether the user has an answer, and not just the promise of one."""
        if self.response == LATER:
            return not any(message.loading for message in self.messages)
        if self.response == UPDATE_LATER:
            return self.updated or bool(self.messages)
        return bool(self.response)

    def text(self) -> str:
        """Return all that was answered."""
        return "\n".join(message.text() for message in self.messages)

    async def acknowledged(self) -> Self:
        """Wait until the bot answered, or said that it will."""
        await self.world.until(lambda: self.response, f"an acknowledgement of {self}")
        return self

    async def done(self) -> Self:
        """Wait until the user has an answer."""
        await self.world.until(lambda: self.is_done, f"an answer to {self}")
        return self

    def __str__(self) -> str:
        what = {COMMAND: "command", COMPONENT: "click", COMPLETION: "completion", SUBMIT: "form"}
        return (
            f"{self.user.name}'s {what[self.kind]} (first answer: {self.response}, {self.text()!r})"
        )


class Interactions(People):
    """A world where people use commands, buttons and forms."""

    def __init__(self) -> None:
        super().__init__()
        self.interactions: dict[str, Interaction] = {}

    async def slash(
        self, user: User, channel: Channel, command: str, *, guest: bool = False, **options: object
    ) -> Interaction:
        """Let somebody use a command (`subagents stop`).

        Args:
            user: Who.
            channel: Where.
            command: The command with its subcommands.
            guest: As an application that is installed for that user.
            options: By name: texts, numbers, users, channels, roles.
        """
        registered = await self._registered(channel, command.split(maxsplit=1)[0], guest=guest)
        data = command_data(registered, command, options, channel)
        return self._interact(user, channel, COMMAND, data, guest=guest)

    async def autocomplete(
        self, user: User, channel: Channel, command: str, *, guest: bool = False, **options: object
    ) -> list[tuple[str, str | int | float]]:
        """Let somebody type an option, the last one given; return the choices (name, value)."""
        registered = await self._registered(channel, command.split(maxsplit=1)[0], guest=guest)
        data = command_data(registered, command, options, channel, focused=[*options][-1])
        found = self._interact(user, channel, COMPLETION, data, guest=guest)
        return (await found.done()).choices

    async def click(self, user: User, message: Message, button: str | Json) -> Interaction:
        """Let somebody click a button, by its label or custom id, or one that they saw before."""
        found = message.button(button) if isinstance(button, str) else button
        assert not found.get("disabled"), f"The button {button!r} cannot be clicked."
        assert not message.deleted, "The message is gone."
        data = {"custom_id": found["custom_id"], "component_type": 2, "id": found["id"]}
        return self._interact(user, message.channel, COMPONENT, data, source=message)

    async def submit(self, user: User, modal: Modal | None, *values: str) -> Interaction:
        """Let somebody fill in the fields of a form, in order, and send it."""
        assert modal, "No form was opened."
        filled = dict(zip([each["custom_id"] for each in modal.inputs], values, strict=True))
        for each in modal.inputs:
            length = len(filled[each["custom_id"]])
            least = each.get("min_length") or (1 if each.get("required", True) else 0)
            most = each.get("max_length") or 4000
            assert least <= length <= most, f"{length} characters, not {least} to {most}."
        data: Json = {
            "custom_id": modal.custom_id,
            "components": [_filled(each, filled) for each in modal.payload["components"]],
        }
        opened = modal.opened_by
        return self._interact(
            user, opened.channel, SUBMIT, data, source=opened.source, guest=opened.guest
        )

    def expire(self, interaction: Interaction) -> None:
        """Let Discord forget an interaction, as after fifteen minutes."""
        interaction.expired = True

    async def _registered(self, channel: Channel, name: str, *, guest: bool) -> Json:
        # A client that connects may still be registering them.
        await self.until(lambda: self.commands or any(self.guild_commands.values()), "commands")
        guild = channel.guild
        in_guild = self.guild_commands.get(guild.id, []) if guild and not guest else []
        for command in [*in_guild, *self.commands]:
            if command["name"] == name and command["type"] == 1:
                _check_use(command, channel, guest=guest)
                return command
        known = [command["name"] for command in [*in_guild, *self.commands]]
        raise AssertionError(f"The command /{name} is not registered here, only {known}.")

    def _interact(
        self,
        user: User,
        channel: Channel,
        kind: int,
        data: Json,
        *,
        source: Message | None = None,
        guest: bool = False,
    ) -> Interaction:
        self.check_presence(user, channel)
        number = self.new_id()
        found = Interaction(number, f"token-{number}", kind, user, channel, self, source, guest)
        self.interactions[found.token] = found
        event = self._event(found, data)
        guild = channel.guild
        self.gateway.tell(
            Event("INTERACTION_CREATE", event, guild=guild.id if guild and not guest else 0)
        )
        self.touch()
        return found

    def _event(self, found: Interaction, data: Json) -> Json:
        channel, guild = found.channel, found.channel.guild
        may = guild.permissions(self.bot, channel) if guild and guild.has_bot else _ALL
        event: Json = {
            "id": str(found.id),
            "application_id": str(self.application_id),
            "type": found.kind,
            "token": found.token,
            "version": 1,
            "data": data,
            "channel_id": str(channel.id),
            "channel": channel_json(channel, self.bot),
            "locale": "en-US",
            "entitlements": [],
            "app_permissions": str(may),
            "attachment_size_limit": self.file_limit,
            "context": 0 if guild else 1,
            "authorizing_integration_owners": {"0": str(guild.id) if guild else "0"},
        }
        if found.guest:
            event["authorizing_integration_owners"] = {"1": str(found.user.id)}
        if found.source:
            event["message"] = message_json(found.source, self.bot, self.files_url)
        if guild is None:
            return event | {"user": user_json(found.user)}
        allowed = guild.permissions(found.user, channel)
        event["channel"]["permissions"] = str(allowed)
        return event | {
            "guild_id": str(guild.id),
            "guild": {"id": str(guild.id), "locale": "en-US", "features": []},
            "guild_locale": "en-US",
            "member": member_json(guild.members[found.user.id], permissions=allowed),
        }


_ALL = (1 << 53) - 1


def _check_use(command: Json, channel: Channel, *, guest: bool) -> None:
    """Discord does not even offer a command elsewhere."""
    here = 0 if channel.guild else 1
    contexts: Sequence[int] = command["contexts"] or [0, 1]
    assert here in contexts, f"/{command['name']} is not offered here: its contexts are {contexts}."
    installed = command["integration_types"] or [0]
    assert int(guest) in installed, f"/{command['name']} is installed for {installed} only."
    has_bot = channel.guild is None or channel.guild.has_bot
    assert guest or has_bot, "The bot is not in this server."


def _filled(component: Json, values: dict[str, str]) -> Json:
    """Return a part of a form as it is sent back."""
    found: Json = {"type": component["type"], "id": component.get("id", 0)}
    if "custom_id" in component:
        found |= {"custom_id": component["custom_id"], "value": values[component["custom_id"]]}
    if "component" in component:
        found["component"] = _filled(component["component"], values)
    if "components" in component:
        found["components"] = [_filled(each, values) for each in component["components"]]
    return found
