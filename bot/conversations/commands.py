"""Carries out commands for all platforms, without a model."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from bot.agent.sanitizer import one_line
from bot.catalog.agents import Agents, described
from bot.conversations.access import has_admin_powers, is_operator
from bot.conversations.audit import AuditLog
from bot.conversations.command_lines import CommandGroup, CommandSpec, CommandTable
from bot.conversations.context_preview import ContextPreview
from bot.conversations.control import Control
from bot.conversations.health import Health
from bot.conversations.pause_lines import pause_line
from bot.conversations.personal_copies import PersonalCopies
from bot.conversations.run_lines import usage_text
from bot.conversations.undo import Undo
from bot.errors import BotError
from bot.events import EventBus
from bot.platforms.base import CommandReply, Overview
from bot.rights.effective import Rights, RightsOf, unlimited
from bot.spending.ledger import Ledger
from bot.subagents.active import ActiveRuns
from bot.subagents.cards import card_of
from bot.subagents.manager import SubagentManager
from bot.subagents.records import Records
from bot.subagents.requests import Caller
from bot.values import Clock, Identity, Place, Role
from db import commands as stored
from db import pauses
from db.database import Database, Transaction
from db.turns import Turn


class SelectableModels(Protocol):
    """The models that users may choose."""

    def named(self, name: str) -> str:
        """Return the model of a name as `provider/model`; the default model for an empty name.

        Raises:
            BadRequestError: No such model may be chosen; the text lists the models that may.
        """

    def kept(self, name: str) -> str:
        """Return a model chosen earlier, or the default if it may no longer be chosen."""

    def only_talks(self, name: str) -> bool:
        """Return True for a model that calls no tools."""

    def names(self) -> list[str]:
        """Return all models that may be chosen, the default first."""

    def admitted(self, chosen: str, rights: Rights) -> str:
        """Return the chosen model, or the first that the rights admit instead.

        Raises:
            NotAllowedError: The rights admit none.
        """


def rights_of(caller: Caller) -> Role:
    """Return the rights of a command: those of an admin only where the command was typed."""
    if is_operator(caller):
        return Role.OPERATOR
    return Role.ADMIN if has_admin_powers(caller, caller.place) else Role.USER


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCall:
    """A command of a user that is being carried out.

    Attributes:
        bot: The services of the built-in commands.
        arguments: The arguments by name; an argument that was not given is empty or missing.
    """

    bot: "CommandRunner"
    caller: Caller
    arguments: Mapping[str, str]

    @property
    def rights(self) -> Role:
        """The rights of the caller in the place of the command."""
        return rights_of(self.caller)

    def get(self, name: str) -> str:
        """Return an argument; empty if it was not given."""
        return self.arguments.get(name, "")

    @asynccontextmanager
    async def applied(self) -> AsyncIterator[Transaction]:
        """Begin the transaction of the command's effect, which marks it as applied."""
        async with self.bot.database.transaction() as tx:
            await stored.apply(tx, self.caller.command_id, self.bot.now())
            yield tx

    def typed(self, words: str) -> str:
        """Return a command of the conversation in the form that this user types."""
        return self.bot.table().typed(words, self.caller.place.platform)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCommand(CommandSpec):
    """A command with its handler, which is the same on every platform.

    Attributes:
        handler: Carries out the command. It raises a `BotError` if that is not possible; the user
            reads its text.
    """

    handler: Callable[[CommandCall], Awaitable[CommandReply]]


class DescribesSettings(Protocol):
    """Describes the settings that apply to users."""

    async def lines(self, user: Identity, place: Place) -> list[str]:
        """Return lines on the rights of a user in a place, Markdown."""

    async def standing(self, user: Identity, place: Place) -> frozenset[str]:
        """Return the rules, as they are spelled, that no longer ask a user in a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRunner:
    """Carries out commands that users type, click or pick.

    Attributes:
        table: Returns all commands that exist now: the built-in ones and those of skills.
        turns: The turns at work in this process.
        undo: Takes back deletions and replacements.
        copies: Sends copies of everything that is stored about a user.
        preview: Returns the parts of the input that a turn would begin with.
        control: Pauses and stops work for admins.
        health: Describes the state of the bot.
        audit: The audit log.
        say: Sends a text to a place, for all who read there: (place, user, text).
        rights: Returns the rights of a user in a place.
        report: Describes the settings that apply to users.
    """

    table: Callable[[], CommandTable[ChatCommand]]
    database: Database
    manager: SubagentManager
    records: Records
    agents: Agents
    models: SelectableModels
    turns: ActiveRuns
    undo: Undo
    copies: PersonalCopies
    preview: Callable[[Turn], Awaitable[ContextPreview]]
    ledger: Ledger
    control: Control
    health: Health
    audit: AuditLog
    events: EventBus
    say: Callable[[Place, Identity, str], None]
    now: Clock
    rights: RightsOf = unlimited
    report: "DescribesSettings | None" = None

    async def run(self, text: str, caller: Caller) -> CommandReply:
        """Carry out a command line such as `/subagents stop 1a2b`.

        A command that cannot be carried out is answered with the reason and a way that works.
        """
        typed = self.table().find(text)
        assert typed is not None, "The text is a command."
        command = typed.command
        if command is not None and not command.is_for(rights_of(caller)):
            # A command of users may have the same name.
            command = self.table().get(CommandGroup.RUNS, typed.name)
        if command is None or not command.is_for(rights_of(caller)):
            offered = [each.name for each in self.table().of(typed.group) if not each.admin]
            name = one_line(typed.name, 30)
            if typed.group is CommandGroup.RUNS:
                text = f"/subagents {name} is unknown. There are: {', '.join(offered)}."
                return CommandReply(text=text, failed=True, private=True)
            forms = [f"`{self.table().typed(each, caller.place.platform)}`" for each in offered]
            known = ", ".join(["`/subagents`", *forms])
            text = f"There is no command /{name}. There are: {known}."
            return CommandReply(text=text, failed=True)
        try:
            arguments = command.parse(typed.words)
            call = CommandCall(bot=self, caller=caller, arguments=arguments)
            reply = await command.handler(call)
        except BotError as error:
            reply = CommandReply(text=str(error), failed=True)
        if not command.admin and (
            paused := await self.database.read(pauses.of, caller.user.key, caller.place)
        ):
            reply = replace(reply, text=f"{reply.text}\n\n{pause_line(paused)}")
        return replace(reply, private=not command.public)

    async def overview(self, caller: Caller) -> Overview:
        """Return a user's runs, usage and agents at a glance."""
        active, ended = await self.records.list(caller)
        return Overview(
            active=tuple(card_of(run, caller.user) for run in active),
            ended=tuple(card_of(run, caller.user) for run in ended),
            usage=usage_text(await self.manager.usage(caller)),
            agents=tuple(described(self.agents)),
        )
