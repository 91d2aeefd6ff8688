"""What can be asked about the application: itself, its gateway, its commands."""

import json
import re

from bot.values import Json
from tests.fakes.discord.payloads import user_json
from tests.fakes.discord.refusals import Refusal, invalid, too_long
from tests.fakes.discord.rest import Call, Route

NAME = re.compile(r"[-_'\w]{1,32}")
CHOICES = {3, 4, 10}


def application(call: Call) -> Json:
    world = call.world
    return {
        "id": str(world.application_id),
        "name": "Retinue",
        "description": "",
        "summary": "",
        "icon": None,
        "bot_public": True,
        "bot_require_code_grant": False,
        "owner": user_json(world.owner),
        "team": None,
        "verify_key": "00" * 32,
        "flags": world.application_flags,
        "hook": True,
        "rpc_origins": [],
        "interactions_endpoint_url": None,
        "approximate_guild_count": sum(guild.has_bot for guild in world.guilds.values()),
        "approximate_user_install_count": 0,
        "integration_types_config": {"0": {}, "1": {}},
    } | world.application


def gateway(call: Call) -> Json:
    return {"url": call.world.gateway_url}


def gateway_for_bots(call: Call) -> Json:
    gateway = call.world.gateway
    limit = {
        "total": 1000,
        "remaining": 1000 - gateway.identifies,
        "reset_after": 14400000,
        "max_concurrency": 1,
    }
    return {
        "url": call.world.gateway_url,
        "shards": gateway.shards,
        "session_start_limit": limit,
    }


# -- commands --------------------------------------------------------------------------------------


def put_commands(call: Call) -> list[Json]:
    commands = [_stored(call, each) for each in call.json.get("list", [])]
    _check_commands(commands)
    world = call.world
    if "guild" in call.ids:
        world.guild_commands[world.guild(call.id("guild")).id] = commands
    else:
        world.commands = commands
    world.syncs += 1
    return commands


def get_commands(call: Call) -> list[Json]:
    world = call.world
    if "guild" in call.ids:
        return world.guild_commands.get(world.guild(call.id("guild")).id, [])
    return world.commands


def _stored(call: Call, command: Json) -> Json:
    usual = {
        "id": str(call.world.new_id()),
        "application_id": str(call.world.application_id),
        "version": str(call.world.new_id()),
        "type": 1,
        "default_member_permissions": None,
        "nsfw": False,
        "name_localizations": None,
        "description_localizations": None,
        "dm_permission": True,
        "contexts": None,
        "integration_types": [0],
        "options": [],
    }
    if "guild" in call.ids:
        usual["guild_id"] = call.ids["guild"]
    return usual | command


def _check_commands(commands: list[Json]) -> None:
    names = [(each["type"], each["name"]) for each in commands]
    if len(set(names)) < len(names):
        text = "Application command names must be unique"
        raise invalid("0", "APPLICATION_COMMANDS_DUPLICATE_NAME", text)
    for number, command in enumerate(commands):
        _check_option(command, str(number))
        if _letters(command) > 8000:
            text = "Command exceeds maximum size (8000)"
            raise invalid(str(number), "APPLICATION_COMMAND_TOO_LARGE", text)


def _check_option(option: Json, where: str) -> None:
    name, description = option["name"], option.get("description", "")
    if not NAME.fullmatch(name) or name != name.lower():
        text = "Command name is invalid"
        raise invalid(f"{where}.name", "APPLICATION_COMMAND_INVALID_NAME", text)
    if not 1 <= len(description) <= 100:
        raise too_long(f"{where}.description", 100, least=1)
    options, choices = option.get("options") or [], option.get("choices") or []
    if len(options) > 25:
        raise too_long(f"{where}.options", 25)
    if len(choices) > 25:
        raise too_long(f"{where}.choices", 25)
    if choices and option.get("autocomplete"):
        raise invalid(where, "APPLICATION_COMMAND_AUTOCOMPLETE_CHOICES", "Choices, or completion.")
    _check_order(options, where)
    for number, each in enumerate(options):
        _check_option(each, f"{where}.options.{number}")


def _check_order(options: list[Json], where: str) -> None:
    needed = [bool(each.get("required")) for each in options]
    if needed != sorted(needed, reverse=True):
        text = "Required options must be placed before non-required options"
        raise invalid(f"{where}.options", "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", text)
    if len({each["name"] for each in options}) < len(options):
        text = "Option names must be unique"
        raise invalid(f"{where}.options", "APPLICATION_COMMAND_OPTIONS_NAME_INVALID", text)


def _letters(option: Json) -> int:
    own = len(option["name"]) + len(option.get("description", ""))
    values = sum(len(json.dumps(each)) for each in option.get("choices") or [])
    return own + values + sum(map(_letters, option.get("options") or []))


def delete_command(call: Call) -> None:
    known = [each for each in call.world.commands if each["id"] == call.ids["command"]]
    if not known:
        raise Refusal(10063)
    call.world.commands.remove(known[0])


_COMMANDS = "/applications/{application}/commands"
_IN_GUILD = "/applications/{application}/guilds/{guild}/commands"

ROUTES = [
    Route("GET", "/oauth2/applications/@me", application),
    Route("GET", "/applications/@me", application),
    Route("GET", "/gateway", gateway, open=True),
    Route("GET", "/gateway/bot", gateway_for_bots),
    Route("PUT", _COMMANDS, put_commands),
    Route("GET", _COMMANDS, get_commands),
    Route("DELETE", _COMMANDS + "/{command}", delete_command),
    Route("PUT", _IN_GUILD, put_commands),
    Route("GET", _IN_GUILD, get_commands),
]
