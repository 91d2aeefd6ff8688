"""Writes the report of `check` on a valid configuration: parts that are on or off, and reasons."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill

from bot.config import FILE_VARIABLE, Config
from bot.home import Home
from bot.interpolation import overrides
from bot.inventory import Inventory
from bot.models.catalog import ModelSettings
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.slack.settings import SlackSettings
from bot.run_texts import counted
from bot.subagents.limits import SubagentSettings, spoken
from skills.calendar.settings import CalendarSettings, CalendarsSettings
from skills.mcp.programs import missing
from skills.mcp.settings import McpSettings
from skills.rest import checkup as rest
from skills.rest.settings import RestSettings
from skills.shell.host import SandboxUnavailableError, hosts

_INDENT = 15
_COLUMNS = 100


def report(
    config: Config,
    file: Path | None,
    environ: Mapping[str, str],
    inventory: Inventory | None = None,
    remarks: Sequence[str] = (),
    *,
    home: Home | None = None,
) -> str:
    """Return a few lines about a configuration, without its secrets.

    Args:
        config: The loaded configuration.
        file: The file it was loaded from, if any.
        environ: The environment variables, which may have set keys.
        inventory: The agents and skills of the configuration, if they were examined.
        remarks: Warnings about the file.
        home: The folder to which paths are relative.
    """
    sections = {
        "Home": iter([f"{home.path}: {home.reason}"] if home else []),
        "Configuration": _source(file, environ),
        "Models": _models(config.models),
        "Subagents": _subagents(config.subagents),
        "Access": _access(config),
        "Database": _database(config),
        "Log": iter([f"{config.logging.level} as {config.logging.form}, to {_log_file(config)}"]),
        "Terminal": iter(["on: `python -m bot chat`"]),
        "Discord": _discord(config.discord),
        "Slack": _slack(config.slack),
        "Shell tool": _shell(config),
        "Web search": _search(config),
        "Permissions": _permissions(config),
        "MCP servers": _mcp(config.mcp, environ),
        "REST services": _rest(config.rest),
        "Calendars": _calendars(config.calendar),
        **_inventory(inventory),
        "Warnings": iter([*(inventory.problems if inventory else ()), *remarks]),
    }
    return "\n".join(
        fill(
            line,
            _COLUMNS,
            initial_indent=f"{'' if index else title:<{_INDENT}}",
            subsequent_indent=" " * _INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for title, lines in sections.items()
        for index, line in enumerate(lines)
    )


def _source(file: Path | None, environ: Mapping[str, str]) -> Iterator[str]:
    yield (
        str(file) if file else f"all defaults: no config.yaml here, no --config, no {FILE_VARIABLE}"
    )
    if set_outside := list(overrides(environ)):
        yield f"and from the environment: {', '.join(set_outside)}"


def _models(models: ModelSettings) -> Iterator[str]:
    yield from models.describe()
    if models.provider != "auto":
        yield f"why: `models.provider` says {models.provider}"
    elif models.chosen != "offline":
        yield "why: it is the first that is set up"
    else:
        yield "why: no ANTHROPIC_API_KEY, and `models.openai` is not set up"


def _subagents(limits: SubagentSettings) -> Iterator[str]:
    if not limits.enabled:
        yield "off: `subagents.enabled` is false"
        return
    rate, delegation = limits.spawn_rate_limit, limits.delegation_rate_limit
    yield (
        f"on: {limits.max_concurrent_per_user} at once per person, "
        f"{limits.max_concurrent_global} in all; {limits.max_queued_per_user} more may wait; "
        f"{rate.max_requests} may start in {spoken(rate.window_seconds)}, "
        f"{counted(delegation.max_requests, 'task')} be delegated in "
        f"{spoken(delegation.window_seconds)}"
    )
    yield (
        f"each: {limits.default_timeout_minutes:g} min (at most {limits.max_timeout_minutes:g}), "
        f"{limits.default_token_budget:,} tokens (at most {limits.max_token_budget:,}), "
        f"{counted(limits.max_tool_calls_per_run, 'tool call')}"
    )
    yield (
        f"nested {limits.max_depth} deep"
        if limits.max_depth > 1
        else "a run cannot start runs: `subagents.max_depth` is 1"
    )


def _access(config: Config) -> Iterator[str]:
    admins, blocked = len(config.access.admins), len(config.access.blocked)
    if not admins:
        yield "no admins: nobody sees or stops another's runs (`access.admins`)"
    else:
        yield "1 admin" if admins == 1 else f"{admins} admins"
    if blocked:
        yield "1 person is blocked" if blocked == 1 else f"{blocked} people are blocked"


def _discord(settings: DiscordSettings) -> Iterator[str]:
    if not settings.configured:
        yield "off: no DISCORD_TOKEN, and no `discord.token`"
        return
    threads = "a mention opens a thread" if settings.threads else "answers stay in the channel"
    private = "answered" if settings.direct_messages else "not answered"
    yield f"on: {threads}; direct messages are {private}"
    yield f"where: {_some(settings.guilds, 'server')}, {_some(settings.channels, 'channel')}"
    if settings.roles or settings.users:
        yield (
            f"who: {_some(settings.roles, 'role', none='no role')}, "
            f"{_some(settings.users, 'person', 'people', none='nobody else')}"
        )
    else:
        yield "who: everyone there"
    if settings.admin_roles:
        yield f"admins: {_some(settings.admin_roles, 'role')}, beside `access.admins`"
    yield {
        "global": "slash commands: everywhere, users' own installations included",
        "guilds": "slash commands: in the servers of `discord.guilds`",
        "off": "slash commands: registered by another process",
    }[settings.commands]
    if settings.shard_count:
        yield f"shards: {len(settings.shard_ids) or 'all'} of {settings.shard_count}"


def _slack(settings: SlackSettings) -> Iterator[str]:
    if not settings.configured:
        yield "off: no SLACK_BOT_TOKEN, and no `slack.bot_token`; docs/slack.md leads through it"
        return
    private = "answered" if settings.direct_messages else "not answered"
    if settings.mode == "socket":
        yield f"on: over connections that it opens itself; direct messages are {private}"
    else:
        yield f"on: at {settings.host}:{settings.port}; direct messages are {private}"
    if settings.many_workspaces:
        yield f"installed: by each workspace, from {settings.public_url}/slack/install"
    yield f"where: {_some(settings.workspaces, 'workspace')}, {_some(settings.channels, 'channel')}"
    yield f"who: {_some(settings.users, 'person', 'people', none='everyone there')}"
    yield f"slash commands: {settings.command}, {settings.subagents_command}"


def _some(ids: Sequence[str], one: str, many: str = "", *, none: str = "") -> str:
    """Return the number of ids in words."""
    many = many or f"{one}s"
    if not ids:
        return none or f"all {many}"
    return f"1 {one}" if len(ids) == 1 else f"{len(ids)} {many}"


def _shell(config: Config) -> Iterator[str]:
    shell = config.shell
    if not (shell.enabled and config.workspaces.enabled):
        which = "workspaces" if shell.enabled else "shell"
        yield f"off: `{which}.enabled` is false"
        return
    try:
        hosts(sys.path)
    except SandboxUnavailableError as error:
        yield f"off: {error}"
        return
    yield "on, where its sandbox passes a self-test: `python -m bot doctor` makes it"
    yield (
        f"each command: {shell.default_seconds:g} s (at most {shell.max_seconds:g}), "
        f"{shell.memory_mb} MB of memory, {shell.processes} processes, no network"
    )


def _search(config: Config) -> Iterator[str]:
    provider = config.search.provider
    if provider == "auto":
        claude = config.models.chosen == "anthropic"
        provider = "anthropic" if claude else None
    if provider is None:
        yield "off: set `search.provider` to let agents search the web"
    elif provider == "anthropic":
        yield "Claude searches, and each search costs money; `search.provider: null` ends that"
    else:
        yield f"on, with {provider}"


#: Texts by `subagents.approvals` and `permissions.default`.
_RUNS = {
    ("deny", "allow"): "they change files; what needs a yes is refused (subagents.approvals: deny)",
    ("deny", "ask"): "they only read: what changes something needs a yes, and without an agent's "
    "`approvals: ask` it is refused (subagents.approvals: deny)",
    ("ask", "allow"): "they change files; what needs a yes is asked of the run's owner",
    ("ask", "ask"): "they ask the run's owner before they change something",
    ("deny", "deny"): "they only read",
    ("ask", "deny"): "they only read",
}


def _permissions(config: Config) -> Iterator[str]:
    settings = config.permissions
    rules = _some(list(settings.rules), "rule", none="no rules")
    yield f"what no rule is about: {settings.default}; {rules}"
    yield f"runs: {_RUNS[config.subagents.approvals, settings.default]}"


def _calendars(settings: CalendarsSettings) -> Iterator[str]:
    on = {name: each for name, each in settings.calendars.items() if each.enabled}
    if not on:
        yield "none: see `calendar.calendars`"
    for name, each in on.items():
        yield f"{name}: {_whose(each)}, {'events may be added' if each.write else 'read only'}"


def _whose(calendar: CalendarSettings) -> str:
    if calendar.people is None:
        return "everyone's"
    return f"of {_some(calendar.people, 'person', 'people')}" if calendar.people else "nobody's"


def _inventory(found: Inventory | None) -> dict[str, Iterator[str]]:
    if found is None:
        return {}
    return {
        "Agents": iter([", ".join(found.agents)]),
        "Agent Skills": iter([", ".join(found.agent_skills) or "none: see `agent_skills.folders`"]),
        "Skills": iter([", ".join(found.skills) or "those that come with the bot"]),
    }


def _mcp(settings: McpSettings, environ: Mapping[str, str]) -> Iterator[str]:
    if not settings.servers:
        yield "none: `mcp.servers` names them"
        return
    for name, each in settings.servers.items():
        if not each.enabled:
            yield f"{name}: off, `enabled` is false"
        elif amiss := missing(each, environ):
            yield f"{name}: NOT USED: {amiss}"
        else:
            tools = (
                "all its tools" if each.tools is None else _some(each.tools, "tool", none="none")
            )
            runs = _some(each.runs, "tool", none="none")
            yield f"{name}: {each.shown}; {tools}, of which subagents may use {runs}"
    yield "whether they answer: `python -m bot doctor`; what waits: `python -m bot mcp list`"


def _rest(settings: RestSettings) -> Iterator[str]:
    if not settings.services:
        yield "none: `rest.services` names them"
    for name, each in settings.services.items():
        yield f"{name}: {rest.known(name, each) if each.enabled else 'off, `enabled` is false'}"


def _database(config: Config) -> Iterator[str]:
    if config.database.is_sqlite:
        yield f"SQLite: {config.database.shown.partition(':///')[2]}, for one bot process"
    else:
        yield f"PostgreSQL: {config.database.shown}"


def _log_file(config: Config) -> str:
    return config.logging.file or "standard error"
