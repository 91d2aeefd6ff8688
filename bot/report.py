"""Writes the report of `check` on a valid configuration: parts that are on or off, and reasons."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill

from bot.config.interpolation import overrides
from bot.config.loading import FILE_VARIABLE
from bot.config.model import Config
from bot.inventory import Inventory
from bot.platforms.catalog import PLATFORMS, module_of
from bot.run_texts import counted
from bot.subagents.limits import SubagentSettings, spoken
from skills import discovery

_INDENT = 15
_COLUMNS = 100

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


def report(
    config: Config,
    file: Path | None,
    environ: Mapping[str, str],
    inventory: Inventory | None = None,
    remarks: Sequence[str] = (),
    *,
    home: str = "",
) -> str:
    """Return a few lines about a configuration, without its secrets.

    Args:
        config: The loaded configuration.
        file: The file it was loaded from, if any.
        environ: The environment variables, which may have set keys.
        inventory: The agents and skills of the configuration, if they were examined.
        remarks: Warnings about the file.
        home: The folder to which paths are relative, and why it is.
    """
    sections: dict[str, Iterable[str]] = {
        "Home": [home],
        **_sections(config, file, environ),
        **(inventory.lines if inventory else {}),
        "Warnings": [*(inventory.problems if inventory else ()), *remarks],
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
        for index, line in enumerate(filter(None, lines))
    )


def _sections(
    config: Config, file: Path | None, environ: Mapping[str, str]
) -> dict[str, Iterable[str]]:
    """Return the lines of each part, by its title; empty lines are left out."""
    admins, blocked = len(config.access.admins), len(config.access.blocked)
    servers = len(config.access.place_admins)
    permissions, database = config.permissions, config.database
    from_environment = ", ".join(overrides(environ))
    return {
        "Configuration": [
            str(file or f"all defaults: no config.yaml here, no --config, no {FILE_VARIABLE}"),
            from_environment and f"and from the environment: {from_environment}",
        ],
        "Models": config.models.describe(),
        "Spending": config.spending.describe(),
        "Subagents": _subagents(config.subagents),
        "Access": [
            counted(admins, "operator")
            if admins
            else "no operators: nobody sees or stops everyone's runs (`access.admins`)",
            f"admins of {counted(servers, 'server or workspace', 'servers or workspaces')}"
            if servers
            else "",
            f"blocked: {counted(blocked, 'user')}" if blocked else "",
            f"admin channels: {', '.join(config.access.admin_channel)}"
            if config.access.admin_channel
            else "",
        ],
        "Database": [
            f"SQLite: {database.shown.partition(':///')[2]}, for one bot process"
            if database.is_sqlite
            else f"PostgreSQL: {database.shown}"
        ],
        "Log": [
            f"{config.logging.level} as {config.logging.form}, "
            f"to {config.logging.file or 'standard error'}"
        ],
        "Terminal": ["on: `python -m bot chat`"],
        **{kind.title: module_of(kind, "report").lines(config.section(kind)) for kind in PLATFORMS},
        "Permissions": [
            f"what no rule is about: {permissions.default}; "
            f"{counted(len(permissions.rules), 'rule') if permissions.rules else 'no rules'}",
            f"runs: {_RUNS[config.subagents.approvals, permissions.default]}",
        ],
        **{each.TITLE: each.lines(config, environ) for each in discovery.imported("report")},
    }


def _subagents(limits: SubagentSettings) -> Iterator[str]:
    if not limits.enabled:
        yield "off: `subagents.enabled` is false"
        return
    rate, delegation = limits.spawn_rate_limit, limits.delegation_rate_limit
    yield (
        f"on: {limits.max_concurrent_per_user} at once per user, "
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
