"""Tests the sandbox before it is offered: checks every restriction that it promises."""

import logging
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path

from bot.catalog.skills import IN_SANDBOX, SKILL_FILE
from skills.files.settings import WorkspaceSettings
from skills.files.workspaces import Workspaces
from skills.shell.cgroups import Cgroups, CgroupsUnavailableError
from skills.shell.host import SandboxUnavailableError, hosts, script
from skills.shell.recipe import ACCOUNT, ShownFolders
from skills.shell.settings import ShellSettings
from skills.shell.shell import CommandResult, NotStartedError, Sandbox, commands_at_once
from skills.shell.watchdog import EVERY_SECONDS

log = logging.getLogger(__name__)

SECONDS = 10.0
#: Reason for running without cgroups although the system allows them.
NO_START_IN_GROUP = "commands did not start in one"
#: A file that the script makes, and a folder that it replaces by a new one of the same name: not
#: every overlay detects that.
_MARK, _FOLDER = "tried", "folder"

#: The only entries allowed in the root folder.
_TOP = frozenset(
    f"/{name}"
    for name in (
        *("bin", "dev", "etc", "lib", "lib32", "lib64", "libx32"),
        *("proc", "run", "sbin", "skills", "tmp", "usr", "workspace"),
    )
)
_VARIABLES = frozenset(
    ("HOME", "LANG", "OLDPWD", "PATH", "PWD", "SHLVL", "TERM", "TMPDIR", "USER", "_")
)
_NO_CAPABILITIES = {
    f"Cap{kind}": "0000000000000000" for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")
}
_STATUS = {**_NO_CAPABILITIES, "NoNewPrivs": "1", "Seccomp": "2"}
_MOST_PROCESSES = 10
_NAME = re.compile(r"(?:export |declare -x )?(\w+)")


@asynccontextmanager
async def open_sandbox(settings: ShellSettings) -> AsyncIterator[Sandbox]:
    """Open a sandbox that has passed its self-test, with the limits of `settings`.

    Raises:
        SandboxUnavailableError: No sandbox is available; the text has the reason.
    """
    if not settings.enabled:
        raise SandboxUnavailableError("It is switched off: `shell.enabled` is false.")
    found = hosts(sys.path)
    with ThreadPoolExecutor(commands_at_once(settings), "sandbox") as executor:
        choices: list[tuple[Cgroups | None, str]] = [(None, NO_START_IN_GROUP)]
        try:
            choices.insert(0, (Cgroups.open(), ""))
        except CgroupsUnavailableError as error:
            choices = [(None, str(error))]
        failure = None
        for (groups, reason), is_overlay, host in product(choices, (True, False), found):
            sandbox = Sandbox(
                host,
                settings,
                executor,
                is_overlay=is_overlay,
                groups=groups,
                no_groups=reason,
            )
            try:
                await self_test(sandbox)
                break
            except SandboxUnavailableError as error:
                kind = "an overlay" if is_overlay else "a copy"
                log.debug("%s with %s does not work: %s", host.bwrap, kind, error)
                # The last variant, a copy, needs least of the system: its failure names the cause.
                failure = error
        else:
            assert failure is not None, "there is at least one host"
            raise failure
        yield sandbox


def enforced(sandbox: Sandbox) -> str:
    """Return a sentence about the limits that this machine enforces on a command, and how."""
    files = "an overlay" if sandbox.is_overlay else "a copy"
    if sandbox.groups is not None:
        memory = "memory and processes by a cgroup"
    else:
        memory = (
            f"processes by a resource limit, memory by a check every {EVERY_SECONDS * 1000:g} ms "
            f"(no cgroup: {sandbox.no_groups})"
        )
    return (
        f"Limits here: files and bytes on disk by the kernel ({files} in memory), {memory}, open "
        "files and processor time by resource limits"
    )


async def self_test(sandbox: Sandbox) -> None:
    """Run one command and check its access and its limits.

    Raises:
        SandboxUnavailableError: The command is not isolated as it should be, or does not run.
    """
    with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
        workspace = Workspaces(WorkspaceSettings(folder=folder)).scratch()
        (workspace.path / _FOLDER).mkdir(parents=True)
        (workspace.path / _FOLDER / "old").touch()
        shown = ShownFolders(skills=_skills_in(Path(folder)))
        try:
            ended = await sandbox.run(
                script("selftest.sh"), workspace, seconds=SECONDS, shown=shown
            )
        except NotStartedError as error:
            raise SandboxUnavailableError(explain(str(error))) from None
        wrote = sorted(path.name for path in workspace.path.rglob("*")) == [_FOLDER, "new", _MARK]
    for problem in problems(ended, sandbox.settings, wrote=wrote):
        raise SandboxUnavailableError(
            f"The sandbox did not pass its self-test, so nothing runs in it: {problem}."
        )


def _skills_in(folder: Path) -> Path:
    """Make a folder with a skill, as commands see those of users."""
    skill = folder / "skills" / _MARK
    skill.mkdir(parents=True)
    (skill / SKILL_FILE).write_text(f"{_MARK}\n", "utf-8")
    for path, mode in ((skill.parent, 0o755), (skill, 0o755), (skill / SKILL_FILE, 0o644)):
        path.chmod(mode)
    return skill.parent


def problems(ended: CommandResult, settings: ShellSettings, *, wrote: bool) -> Iterator[str]:
    """Yield the defects of a sandbox, from the output of the test script (pure).

    Args:
        ended: The result of the script.
        settings: The settings that it was started with.
        wrote: Whether its changes have arrived in the workspace.
    """
    lines = ended.output.head.splitlines()
    if ended.reason:
        yield f"the command was ended: {ended.reason}"
    if "done" not in lines:
        yield f"the command broke off: {lines[-1] if lines else 'it printed nothing'}"
        return
    if not wrote:
        yield "what it changed did not arrive in the workspace"
    facts: dict[str, list[str]] = {}
    for line in lines:
        kind, _, value = line.partition(" ")
        facts.setdefault(kind, []).append(value)
    status = dict(line.split(":", 1) for line in facts.get("status", ()) if ":" in line)
    for name, wanted in _STATUS.items():
        if status.get(name, "").strip() != wanted:
            yield f"{name} is {status.get(name, 'unknown').strip()} inside, and not {wanted}"
    accounts = [line.split() for line in facts.get("uid_map", ())]
    if [(inner, count) for inner, _, count in accounts] != [(str(ACCOUNT), "1")]:
        yield f"it has other accounts than its own: {accounts}"
    if facts.get("limit") != [f"{settings.processes} {settings.processes}"]:
        yield "the number of its processes is not limited"
    if facts.get("read") != [_MARK]:
        yield f"it cannot read {IN_SANDBOX}, the folders of skills"
    if "nested" in facts:
        yield "it can make namespaces of its own"
    yield from _visible(facts)


def _visible(facts: dict[str, list[str]]) -> Iterator[str]:
    if folders := facts.get("wrote"):
        yield f"it can write to {', '.join(folders)}"
    seen = facts.get("sees", [])
    processes = [path for path in seen if path.startswith("/proc/")]
    if not 1 <= len(processes) <= _MOST_PROCESSES:
        yield f"it sees {len(processes)} processes"
    if further := {path for path in seen if path not in processes} - _TOP:
        yield f"it sees {', '.join(sorted(further))}"
    cards = {name.rstrip(":") for name in facts.get("net", ()) if name.endswith(":")}
    if cards != {"lo"}:
        yield f"it sees the network: {', '.join(sorted(cards)) or 'nothing to look at'}"
    names = {found[1] for line in facts.get("export", ()) if (found := _NAME.match(line))}
    if further := names - _VARIABLES:
        yield f"it sees variables of the environment: {', '.join(sorted(further))}"


def explain(cause: str) -> str:
    """Return the reason why bubblewrap did not start, and the remedy (pure)."""
    if "nknown option" in cause:
        return f"bubblewrap is too old: 0.8 or newer is needed ({cause})."
    if "proc" in cause and "mount" in cause.lower():
        return (
            f"This container hides parts of /proc, so bubblewrap cannot mount its own ({cause}). "
            "In Docker: --security-opt systempaths=unconfined."
        )
    if any(word in cause for word in ("ermission", "not permitted", "namespace", "uid map")):
        return (
            f"This system refuses namespaces to bubblewrap ({cause}). In Docker, a seccomp profile "
            "that allows them helps; on Ubuntu 24.04 or newer, the system's own bubblewrap with "
            "its AppArmor profile."
        )
    return f"bubblewrap does not start: {cause}."
