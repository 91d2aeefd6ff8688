"""Tries the sandbox before anyone is offered it: what it does not keep is not promised."""

import logging
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import product

from bot.sandbox.cgroups import Cgroups, CgroupsUnavailableError
from bot.sandbox.host import Host, SandboxUnavailableError, hosts
from bot.sandbox.recipe import ACCOUNT
from bot.sandbox.settings import Room, ShellSettings
from bot.sandbox.shell import Ended, NotStartedError, Sandbox, commands_at_once
from bot.sandbox.watchdog import EVERY_SECONDS
from bot.workspaces.settings import WorkspaceSettings
from bot.workspaces.workspaces import Workspaces

log = logging.getLogger(__name__)

SECONDS = 10.0
_MARK = "tried"
#: Why commands get no cgroup although this system allows them.
NO_START_IN_GROUP = "commands did not start in one"
#: A folder that the script replaces by one of the same name: not every overlay can tell that.
_FOLDER = "folder"

#: One start, and few programs: it runs at every start of the bot.
SCRIPT = f"""\
while read -r line; do
    case $line in Cap*|NoNew*|Seccomp:*) echo "status $line" ;; esac
done </proc/self/status
while read -r name kind soft hard _; do
    [ "$name $kind" = "Max processes" ] && echo "limit $soft $hard"
done </proc/self/limits
while read -r line; do echo "uid_map $line"; done </proc/self/uid_map
while read -r name _; do echo "net $name"; done </proc/net/dev
for path in /* /proc/[0-9]*; do echo "sees $path"; done
for folder in / /usr /etc /dev /proc /run; do
    (: >"$folder/{_MARK}") 2>/dev/null && echo "wrote $folder"
done
unshare --user true 2>/dev/null && echo "nested"
export | while read -r line; do echo "export ${{line%%=*}}"; done
rm -r {_FOLDER} && mkdir {_FOLDER} && : >{_FOLDER}/new && : >{_MARK} && echo "done"
"""

#: What may stand at the top, and no more.
_TOP = frozenset(
    f"/{name}"
    for name in (
        *("bin", "dev", "etc", "lib", "lib32", "lib64", "libx32"),
        *("proc", "run", "sbin", "tmp", "usr", "workspace"),
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
async def open_sandbox(settings: ShellSettings, room: Room) -> AsyncIterator[Sandbox]:
    """Give a sandbox that has passed its self-test.

    Args:
        settings: What a command may use.
        room: What one person's files may take.

    Raises:
        SandboxUnavailableError: There is none here; the text says why.
    """
    if not settings.enabled:
        raise SandboxUnavailableError("It is switched off: `shell.enabled` is false.")
    found = hosts(sys.path)
    with ThreadPoolExecutor(commands_at_once(settings), "sandbox") as executor:
        yield await _first_that_works(found, settings, room, executor)


async def _first_that_works(
    found: list[Host], settings: ShellSettings, room: Room, executor: Executor
) -> Sandbox:
    reasons = []
    choices: list[tuple[Cgroups | None, str]] = [(None, NO_START_IN_GROUP)]
    try:
        choices.insert(0, (Cgroups.open(), ""))
    except CgroupsUnavailableError as error:
        choices = [(None, str(error))]
    for (groups, reason), is_overlay, host in product(choices, (True, False), found):
        sandbox = Sandbox(
            host,
            settings,
            room,
            executor,
            is_overlay=is_overlay,
            groups=groups,
            no_groups=reason,
        )
        try:
            await self_test(sandbox)
        except SandboxUnavailableError as error:
            kind = "an overlay" if is_overlay else "a copy"
            log.debug("%s with %s does not work: %s", host.bwrap, kind, error)
            reasons.append(error)
        else:
            return sandbox
    # The copy needs less of the system: what it lacks is what is missing.
    raise reasons[-1]


def enforced(sandbox: Sandbox) -> str:
    """Return the limits of a command that this machine enforces, and how, in one sentence."""
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
    """Run one command and look at what it could see and do.

    Raises:
        SandboxUnavailableError: It is not shut in as it should be, or cannot be run at all.
    """
    with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
        workspace = Workspaces(WorkspaceSettings(folder=folder)).scratch()
        (workspace.path / _FOLDER).mkdir(parents=True)
        (workspace.path / _FOLDER / "old").touch()
        try:
            ended = await sandbox.run(SCRIPT, workspace, seconds=SECONDS)
        except NotStartedError as error:
            raise SandboxUnavailableError(explain(str(error))) from None
        wrote = sorted(path.name for path in workspace.path.rglob("*")) == [_FOLDER, "new", _MARK]
    for problem in problems(ended, sandbox.settings, wrote=wrote):
        raise SandboxUnavailableError(
            f"The sandbox did not pass its self-test, so nothing runs in it: {problem}."
        )


def problems(ended: Ended, settings: ShellSettings, *, wrote: bool) -> Iterator[str]:
    """Give what is wrong with a sandbox, from what the script of the test found in it (pure).

    Args:
        ended: How the script ended.
        settings: What it was started with.
        wrote: What it changed has arrived in the workspace.
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
    yield from _rights(facts, settings)
    yield from _sights(facts)


def _rights(facts: dict[str, list[str]], settings: ShellSettings) -> Iterator[str]:
    status = dict(line.split(":", 1) for line in facts.get("status", ()) if ":" in line)
    for name, wanted in _STATUS.items():
        if status.get(name, "").strip() != wanted:
            yield f"{name} is {status.get(name, 'unknown').strip()} inside, and not {wanted}"
    accounts = [line.split() for line in facts.get("uid_map", ())]
    if [(inner, count) for inner, _, count in accounts] != [(str(ACCOUNT), "1")]:
        yield f"it has other accounts than its own: {accounts}"
    if facts.get("limit") != [f"{settings.processes} {settings.processes}"]:
        yield "the number of its processes is not limited"
    if "nested" in facts:
        yield "it can make namespaces of its own"


def _sights(facts: dict[str, list[str]]) -> Iterator[str]:
    if wrote := facts.get("wrote"):
        yield f"it can write to {', '.join(wrote)}"
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
    """Return why bubblewrap did not start, and what to do about it (pure)."""
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
