"""Registers the slash commands with Discord if they have changed."""

import logging
from collections.abc import Mapping, Sequence

import discord

from bot.conversations.command_arguments import Argument, ArgumentKind
from bot.conversations.command_lines import GROUPS, CommandGroup, CommandSpec, CommandTable
from bot.platforms.discord import portal
from bot.platforms.discord.client import RetinueClient
from bot.platforms.discord.commands import ADMINS, ASK
from bot.platforms.discord.interactions import UNSENT
from bot.values import Json

log = logging.getLogger(__name__)

#: The names of the slash commands.
OURS = frozenset({*map(str, CommandGroup), ASK[1], ADMINS})
#: Fields that Discord adds itself or has replaced by `contexts`.
_ADDED = frozenset(
    {"id", "application_id", "guild_id", "version", "dm_permission", "default_permission"}
)
#: Fields that Discord stores only for commands in all servers.
_GLOBAL_ONLY = frozenset({"contexts", "integration_types"})
#: The members to whom Discord offers the commands of admins, unless a server's settings say others.
_MANAGERS = discord.Permissions(manage_guild=True)
_FOR_ADMINS = "For the admins of this bot: pauses, limits, health, audit log"
#: The types of options that are not text.
_TYPES = {
    ArgumentKind.NUMBER: discord.AppCommandOptionType.integer,
    ArgumentKind.FLAG: discord.AppCommandOptionType.boolean,
}


def payload(table: CommandTable[CommandSpec]) -> list[Json]:
    """Return the slash commands as Discord registers them, for servers, users and messages.

    Those of admins are offered in servers, to members who may manage the server and whom its
    settings name: Discord does not know the bot's own admins. Whoever picks one, the bot decides.
    """
    found = [
        _slash_command(
            str(group),
            description,
            [_subcommand(each) for each in table.of(group) if not each.admin],
        )
        for group, description in GROUPS.items()
    ]
    asked = table.get(*ASK)
    if asked is not None:
        # Typed alone it would ask nothing.
        options = [_option(argument) | {"required": True} for argument in asked.listed]
        found.append(_slash_command(asked.name, asked.description, options))
    if admins := [_subcommand(each) for each in table.of(CommandGroup.CHAT) if each.admin]:
        in_servers = {"contexts": [0], "integration_types": [0]}
        may_manage = {"default_member_permissions": str(_MANAGERS.value)}
        found.append(_slash_command(ADMINS, _FOR_ADMINS, admins) | in_servers | may_manage)
    return found


def _subcommand(command: CommandSpec) -> Json:
    return {
        "type": discord.AppCommandOptionType.subcommand.value,
        "name": command.name,
        "description": command.description,
        # Discord wants the required options first.
        "options": [
            _option(argument)
            for argument in sorted(command.listed, key=lambda one: not one.required)
        ],
    }


def _slash_command(name: str, description: str, options: list[Json]) -> Json:
    return {
        "type": discord.AppCommandType.chat_input.value,
        "name": name,
        "description": description,
        "contexts": [0, 1, 2],
        "integration_types": [0, 1],
        "options": options,
    }


def _option(argument: Argument) -> Json:
    limit = "value" if argument.kind is ArgumentKind.NUMBER else "length"
    return {
        "type": _TYPES.get(argument.kind, discord.AppCommandOptionType.string).value,
        "name": argument.name,
        "description": argument.description,
        "required": argument.required,
        "autocomplete": argument.kind is ArgumentKind.RUN,
        **({f"min_{limit}": argument.least} if argument.least else {}),
        **({f"max_{limit}": argument.most} if argument.most else {}),
    }


async def sync(client: RetinueClient, table: CommandTable[CommandSpec]) -> None:
    """Register the commands in the configured scope and remove them elsewhere. Never raises."""
    settings = client.settings
    if settings.commands == "off":
        return
    ours = payload(table)
    everywhere = settings.commands == "global"
    for guild in settings.guilds or ():
        await _try(client, guild, [] if everywhere else ours)
    await _try(client, "", ours if everywhere else [])


async def registered(client: RetinueClient, guild: str) -> list[Json]:
    """Return the commands that Discord has in a server, or for all servers if `guild` is empty."""
    application = client.application_id or 0
    if guild:
        return [
            dict(each) for each in await client.http.get_guild_commands(application, int(guild))
        ]
    return [dict(each) for each in await client.http.get_global_commands(application)]


async def _try(client: RetinueClient, guild: str, wanted: list[Json]) -> None:
    """Replace our commands and leave all others unchanged."""
    where = f"in the server {guild}" if guild else "for all servers"
    application = client.application_id or 0
    try:
        found = await registered(client, guild)
        target = [each for each in found if each["name"] not in OURS] + wanted
        if comparable(target, guild=bool(guild)) == comparable(found, guild=bool(guild)):
            return
        if guild:
            await client.http.bulk_upsert_guild_commands(application, int(guild), payload=target)
        else:
            await client.http.bulk_upsert_global_commands(application, payload=target)
        log.info("The slash commands %s were brought up to date.", where)
    except discord.Forbidden as error:
        if wanted:
            log.error(
                "The slash commands %s could not be registered (%s). Add the bot to that server "
                "again with %s and start it again.",
                where,
                error,
                portal.invite_url(client.application_id or "your-application"),
            )
    except UNSENT as error:
        log.error(
            "The slash commands %s could not be brought up to date (%s). Mentions and buttons work "
            "all the same; the next start tries again.",
            where,
            error,
        )


def comparable(commands: Sequence[Json], *, guild: bool = False) -> list[Json]:
    """Return commands normalised, so that sent and registered commands can be compared."""
    without = _ADDED | (_GLOBAL_ONLY if guild else frozenset())
    forms = [_form({"type": 1, **command}, without) for command in commands]
    return sorted(forms, key=lambda form: (form["type"], form["name"]))


def _form(part: Mapping[str, object], without: frozenset[str]) -> Json:
    form: Json = {}
    for key, value in part.items():
        if key in without or value is None or value is False or value in ([], {}):
            continue
        if not isinstance(value, list):
            form[key] = value
        elif all(isinstance(item, int) for item in value):
            form[key] = sorted(value, key=str)  # the order of integers is irrelevant
        else:
            form[key] = [
                _form(item, without) if isinstance(item, Mapping) else item for item in value
            ]
    return form
