"""Reports for `check` whether the shell tool is on."""

import sys
from collections.abc import Iterator, Mapping

from bot.agent.settings import AgentSkillsSettings
from bot.values import Sections
from skills.files.settings import WorkspaceSettings
from skills.shell.host import SandboxUnavailableError, hosts
from skills.shell.installing import state_of
from skills.shell.settings import ShellSettings

TITLE = "Shell tool"


def lines(config: Sections, _: Mapping[str, str]) -> Iterator[str]:
    """Yield the state of the tool, and its limits."""
    shell, files = config.section(ShellSettings), config.section(WorkspaceSettings)
    if not (shell.enabled and files.enabled):
        which = "workspaces" if shell.enabled else "shell"
        yield f"off: `{which}.enabled` is false"
        yield from _without(config)
        return
    try:
        hosts(sys.path)
    except SandboxUnavailableError as error:
        yield f"off: {error}"
        yield from _without(config)
        return
    yield "on, where its sandbox passes a self-test: `python -m bot doctor` makes it"
    yield (
        f"each command: {shell.default_seconds:g} s (at most {shell.max_seconds:g}), "
        f"{shell.memory_mb} MB of memory, {shell.processes} processes, no network"
    )
    yield packages(shell)


def packages(shell: ShellSettings) -> str:
    """Return a line about the Python packages, and how they differ from the configuration."""
    found, amiss = state_of(shell)
    if amiss:
        return f"Python packages NOT AS CONFIGURED: {amiss}"
    if found is None:
        return "Python packages: those of the machine; `shell.python_packages` names further ones"
    return f"Python packages, for Python {found.python}: {found.named}"


def _without(config: Sections) -> Iterator[str]:
    """Yield what does not work without the tool."""
    if config.section(AgentSkillsSettings).folders:
        yield "scripts of Agent Skills (`agent_skills.folders`) can be read, not run"
