"""The options of a command, as Discord sends them when somebody uses it."""

from collections.abc import Iterable

from bot.values import Json
from tests.fakes.discord.payloads import channel_json, member_json, role_json, user_json
from tests.fakes.discord.things import Channel, Role, User

SUBCOMMAND, GROUP, STRING, INTEGER, BOOLEAN, NUMBER = 1, 2, 3, 4, 5, 10
TYPES: dict[int, type | tuple[type, ...]] = {
    STRING: str,
    INTEGER: int,
    BOOLEAN: bool,
    6: User,
    7: Channel,
    8: Role,
    9: (User, Role),
    NUMBER: (int, float),
}


def command_data(
    command: Json,
    typed: str,
    options: dict[str, object],
    channel: Channel,
    *,
    focused: str = "",
) -> Json:
    """Return the data of an interaction in which somebody uses a command.

    Args:
        command: As it is registered.
        typed: The command with its subcommands.
        options: What was given, by name.
        channel: Where it is used.
        focused: The option that is just being typed; nothing is required then.

    Raises:
        AssertionError: Nobody could type that.
    """
    path = [command]
    for word in typed.split()[1:]:
        inner = [each for each in path[-1].get("options") or [] if each["name"] == word]
        assert inner, f"/{typed} is not registered: {_names(path[-1])} are."
        path.append(inner[0])
    last = path[-1]
    assert not any(each["type"] in {SUBCOMMAND, GROUP} for each in last.get("options") or []), (
        f"/{typed} cannot be used alone: it has {_names(last)}."
    )
    given = _given(last, options, focused)
    for step in reversed(path[1:]):
        given = [{"name": step["name"], "type": step["type"], "options": given}]
    data: Json = {
        "id": command["id"],
        "name": command["name"],
        "type": 1,
        "options": given,
        "resolved": _resolved(options.values(), channel),
    }
    if "guild_id" in command:
        data["guild_id"] = command["guild_id"]
    return data


def _given(command: Json, options: dict[str, object], focused: str) -> list[Json]:
    known = {each["name"]: each for each in command.get("options") or []}
    unknown = options.keys() - known
    assert not unknown, f"There is no option {unknown}, only {[*known]}."
    missing = [name for name, each in known.items() if each.get("required")]
    missing = [name for name in missing if name not in options]
    assert focused or not missing, f"Discord asks for {missing} first."
    return [_option(known[name], value, name == focused) for name, value in options.items()]


def _option(option: Json, value: object, focused: bool) -> Json:
    found: Json = {"name": option["name"], "type": option["type"], "value": value}
    if focused:
        assert option.get("autocomplete"), f"{option['name']} offers no completion."
        return found | {"focused": True, "value": str(value)}
    assert isinstance(value, TYPES[option["type"]]), f"{value!r} does not fit {option}."
    if isinstance(value, User | Channel | Role):
        return found | {"value": str(value.id)}
    if choices := option.get("choices"):
        assert value in [each["value"] for each in choices], f"{value!r} is not offered: {choices}."
    measured = len(value) if isinstance(value, str) else value
    for key, wrong in (("min", -1), ("max", 1)):
        limit = option.get(f"{key}_length" if isinstance(value, str) else f"{key}_value")
        if limit is not None and isinstance(measured, int | float):
            assert (measured - limit) * wrong <= 0, f"Discord does not take {value!r} for {option}."
    return found


def _resolved(values: Iterable[object], channel: Channel) -> Json:
    resolved: dict[str, Json] = {}
    guild = channel.guild
    for value in values:
        if isinstance(value, User):
            resolved.setdefault("users", {})[str(value.id)] = user_json(value)
            if guild and value.id in guild.members:
                member = member_json(guild.members[value.id], permissions=0, user=False)
                resolved.setdefault("members", {})[str(value.id)] = member
        elif isinstance(value, Role):
            resolved.setdefault("roles", {})[str(value.id)] = role_json(value)
        elif isinstance(value, Channel) and guild:
            shown = channel_json(value, guild.bot) | {"permissions": "0"}
            resolved.setdefault("channels", {})[str(value.id)] = shown
    return resolved


def _names(command: Json) -> list[str]:
    return [each["name"] for each in command.get("options") or []]
