"""Handles slash commands and their completion; each becomes the equivalent text command."""

import asyncio
import logging
from collections.abc import Sequence

import discord
from discord import app_commands

from bot.agent.sanitizer import one_line
from bot.conversations.command_lines import CommandGroup, CommandSpec, CommandTable
from bot.platforms.discord.buttons import more_below, take_form
from bot.platforms.discord.interactions import (
    AdmittedInteraction,
    ClientInteraction,
    admit,
    admitted_interaction,
    carry_out,
    send_at_once,
)
from bot.values import Json, short

log = logging.getLogger(__name__)

#: The command that has a slash command of its own too: `/ask`.
ASK = (CommandGroup.CHAT, "ask")
#: The slash command with the commands of admins, which Discord offers to few.
ADMINS = "retinue-admin"
MOST_CHOICES = 25
LONGEST_CHOICE = 100
#: Discord waits 3 seconds for the choices, including both network trips.
CHOICES_SECONDS = 2.0
CHANGED = "This command has changed since Discord was loaded. Press Ctrl+R, then pick it again."


async def on_interaction(interaction: ClientInteraction) -> None:
    """Handle a slash command, a completion or a form."""
    data: Json = dict(interaction.data or {})
    if interaction.client.inbound is None:
        log.info("The interaction %s arrived before the intake was ready", interaction.id)
        return
    table = interaction.client.inbound.command_table
    match interaction.type:
        case discord.InteractionType.application_command:
            await _carry_out(interaction, *_picked(table, data))
        case discord.InteractionType.autocomplete:
            await _complete(interaction, *_picked(table, data))
        case discord.InteractionType.modal_submit:
            await take_form(interaction, data)


def _picked(
    table: CommandTable[CommandSpec], data: Json
) -> tuple[CommandSpec | None, Sequence[Json]]:
    """Return the command of a payload, `None` if it does not exist, and its options."""
    name = str(data.get("name"))
    if name == ASK[1]:
        return table.get(*ASK), data.get("options") or ()
    part: Json = next(iter(data.get("options") or ()), {})
    if name == ADMINS:
        name = CommandGroup.CHAT
    if name not in {*CommandGroup}:
        return None, ()
    return table.get(CommandGroup(name), str(part.get("name"))), part.get("options") or ()


async def _carry_out(
    interaction: ClientInteraction, command: CommandSpec | None, options: Sequence[Json]
) -> None:
    """Carry out a slash command, unless it is one that an older version has registered."""
    values = {each["name"]: str(each["value"]) for each in options if each["value"] is not False}
    known = {each.name: each.required for each in command.listed} if command else {}
    needed = {name for name, required in known.items() if required}
    if command is None or not needed <= set(values) <= set(known):
        log.warning("The command of interaction %s is not known", interaction.id)
        await admit(interaction, lambda _: send_at_once(interaction, CHANGED))
        return
    run = values.get("run", "")
    line = command.line(values)
    await carry_out(interaction, line, below=lambda reply: more_below(reply, run))


async def _complete(
    interaction: ClientInteraction, command: CommandSpec | None, options: Sequence[Json]
) -> None:
    """Offer the user's runs that fit the command and the typed text, newest first."""
    typed = next((str(each["value"]) for each in options if each.get("focused")), "")
    choices: list[app_commands.Choice[str]] = []
    try:
        admitted = admitted_interaction(interaction)
        if isinstance(admitted, AdmittedInteraction) and command is not None:
            async with asyncio.timeout(CHOICES_SECONDS):
                found = await admitted.inbound.run_choices(
                    admitted.user, typed, action=command.name
                )
            choices = [
                app_commands.Choice(
                    name=one_line(f"{short(run)} {label}", LONGEST_CHOICE), value=run
                )
                for run, label in found[:MOST_CHOICES]
            ]
    except Exception:
        log.exception("There are no choices for interaction %s", interaction.id)
    await interaction.response.autocomplete(choices)
