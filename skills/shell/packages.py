"""The Python packages that commands can import: the installed set, and how it differs from ours.

A set is a virtual environment in a folder of its own, which never changes. The file `current` names
the set in use, so a command that is at work keeps the set with which it began.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.agent.sanitizer import one_line
from skills.shell.output import CommandOutput
from skills.shell.settings import ShellSettings

COMMAND = "`python -m bot packages install`"
CURRENT, RECORD, ENVIRONMENT = "current", "set.json", "environment"
#: The name of the folder of a set.
SET_NAME = re.compile(r"[0-9a-f]{16}")
#: Most packages that a text names.
MOST_NAMED = 40
_MISSING = re.compile(r"No module named '?([A-Za-z_][\w.]{0,99})")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSet:
    """An installed set of packages.

    Attributes:
        folder: The folder of the set.
        wanted: The configuration that it was installed for.
        python: The version of Python that it fits, such as 3.11.
        versions: The version of each package, those that others need included.
    """

    folder: Path
    wanted: tuple[str, ...]
    python: str
    versions: Mapping[str, str]

    @property
    def environment(self) -> Path:
        """The virtual environment, which commands see."""
        return self.folder / ENVIRONMENT

    @property
    def named(self) -> str:
        """The packages of the configuration with their versions, as part of a sentence."""
        names = [name_of(each) for each in self.wanted]
        shown = [f"{name} {self.versions.get(name, '?')}" for name in names[:MOST_NAMED]]
        more = len(names) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more else "")


def python_folder(settings: ShellSettings) -> Path:
    """Return the folder of the sets."""
    return Path(settings.folder).absolute() / "python"


def installed(folder: Path) -> PackageSet | None:
    """Return the set in use; `None` for none. This blocks for some µs."""
    try:
        name = (folder / CURRENT).read_text("utf-8").strip()
        if not SET_NAME.fullmatch(name):
            return None
        record = json.loads((folder / name / RECORD).read_text("utf-8"))
        found = PackageSet(
            folder=folder / name,
            wanted=tuple(record["wanted"]),
            python=record["python"],
            versions=dict(record["versions"]),
        )
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if found.environment.is_dir() else None


def difference(settings: ShellSettings, found: PackageSet | None, python: str) -> str:
    """Return the differences from the configuration and the remedy; empty for none (pure).

    Args:
        settings: The configuration.
        found: The installed set.
        python: The version of Python that commands have, such as 3.11; empty for none.
    """
    wanted = settings.wanted_packages
    if not wanted and found is None:
        return ""
    had = set(found.wanted) if found else set()
    added = [each for each in wanted if each not in had]
    gone = sorted(had - set(wanted))
    said = []
    if added:
        said.append(f"not installed: {listed(added)}")
    if gone:
        said.append(f"installed and no longer in `shell.python_packages`: {listed(gone)}")
    if found and found.python != python:
        has = f"Python {python}" if python else "no Python"
        said.append(f"installed for Python {found.python}, and commands have {has}")
    return f"{'; '.join(said)}. Run {COMMAND}" if said else ""


def hint(output: CommandOutput, settings: ShellSettings, found: PackageSet | None) -> str:
    """Return a sentence for the model about a missing module; empty if none is missing (pure)."""
    match = _MISSING.search(output.head) or _MISSING.search(output.tail)
    if match is None:
        return ""
    module = match[1].rstrip(".")
    pending = set(settings.wanted_packages) - set(found.wanted if found else ())
    todo = f"add its package to `shell.python_packages` in config.yaml and run {COMMAND}"
    if pending:
        todo = (
            f"run {COMMAND}: packages that the configuration names are not installed yet. Where "
            f"the module is in none of them, the admin has to {todo.partition(' and ')[0]} first"
        )
    return (
        f"Python has no module `{module}` here. Unless it is a file of yours, an admin of the "
        f"machine has to {todo}. Nothing can be installed from the sandbox, which has no network: "
        "go on without it, or tell the user."
    )


def name_of(requirement: str) -> str:
    """Return the normalised name in `PyPDF_2[crypto]>=3`."""
    match = _NAME.match(requirement)
    return normalised(match[0]) if match else requirement


def normalised(name: str) -> str:
    """Return the name of a package as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def listed(names: Iterable[str]) -> str:
    """Return names as part of a sentence."""
    return one_line(", ".join(names), 1_000)
