"""Settings of the shell tool and its sandbox (`shell:`)."""

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from bot.setting_types import MOST_COUNT, MOST_MEGABYTES
from bot.values import SkillSettings

MEGABYTE = 1024 * 1024

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"
_VERSION = r"(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]{1,50}"
#: A name, extras and versions, as in `name[extra]>=1,<2`. Addresses, paths and options are refused.
_REQUIREMENT = re.compile(
    rf"{_NAME}\s*(?:\[\s*{_NAME}(?:\s*,\s*{_NAME}){{0,20}}\s*\])?"
    rf"\s*(?:{_VERSION}(?:\s*,\s*{_VERSION}){{0,9}})?"
)


def _requirement(given: str) -> str:
    if not _REQUIREMENT.fullmatch(given.strip()):
        raise ValueError(
            f"{given[:100]!r} is no package: give its name, and if you like versions, such as "
            "pypdf or openpyxl>=3.1,<4"
        )
    return given.strip()


Requirement = Annotated[str, AfterValidator(_requirement)]


class ShellSettings(SkillSettings):
    """Everything under `shell:`."""

    section: ClassVar[str] = "shell"
    about: ClassVar[str] = "Commands in a sandbox, in those workspaces: docs/shell.md."

    enabled: bool = True
    """Offer the shell tool, where its sandbox (bubblewrap) passes its self-test."""

    folder: str = Field("data/shell", min_length=1)
    """The folder of what commands see besides their workspace: Python packages, and copies of the
    folders of Agent Skills. All of it can be made anew.
    """

    python_packages: tuple[Requirement, ...] = Field((), max_length=200)
    """Python packages that commands can import, like [pypdf, "openpyxl>=3.1"]. The command
    `python -m bot packages install` installs them.
    """

    default_seconds: float = Field(60, ge=1, le=3600)
    """The time of a command when the agent names none."""

    max_seconds: float = Field(600, ge=1, le=3600)
    """The longest time it may name."""

    at_once: int | None = Field(None, ge=1, le=MOST_COUNT)
    """Commands at the same time; null for twice the processors."""

    at_once_per_user: int | None = Field(None, ge=1, le=MOST_COUNT)
    """Of these, commands of one user with all their runs; null for half of them."""

    processes: int = Field(64, ge=8, le=1000)
    """Processes and threads of one command at once."""

    memory_mb: int = Field(512, ge=64, le=MOST_MEGABYTES)
    """Memory of one command with all its processes, in MB."""

    temporary_mb: int = Field(64, ge=1, le=MOST_MEGABYTES)
    """The space that it has in /tmp, in MB; /dev/shm has as much."""

    temporary_files: int = Field(20_000, ge=100, le=MOST_COUNT)
    """Files that it may have there."""

    file_mb: int = Field(64, ge=1, le=MOST_MEGABYTES)
    """The largest file that it may write, in MB."""

    output_mb: int = Field(16, ge=1, le=MOST_MEGABYTES)
    """A command that prints more than this, in MB, is ended."""

    shown_kb: int = Field(32, ge=4, le=128)
    """Output that the agent reads, in KB: its beginning and end."""

    free_memory_mb: int = Field(256, ge=0, le=MOST_MEGABYTES)
    """When the machine has less left than this, in MB, commands end."""

    @model_validator(mode="after")
    def _default_fits(self) -> "ShellSettings":
        if self.default_seconds > self.max_seconds:
            raise ValueError(
                "default_seconds is more than max_seconds; lower one or raise the other"
            )
        return self

    @property
    def wanted_packages(self) -> tuple[str, ...]:
        """The packages as the installer reads them, each once."""
        return tuple(sorted({re.sub(r"\s+", "", each) for each in self.python_packages}))
