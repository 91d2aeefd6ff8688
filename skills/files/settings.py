"""Settings of workspaces (`workspaces:`), and the checks of their limits (pure)."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from bot.disk import spoken
from bot.errors import ToolError
from bot.setting_types import MOST_DISK_BYTES
from bot.values import SkillSettings

#: Begins the names of the folders of places; those of users are hexadecimal.
PLACES = "place-"

MAKE_ROOM = (
    "Make room first: delete files with the shell if you have it, or write an empty text over "
    "large ones that the user no longer needs."
)


class WorkspaceSettings(SkillSettings):
    """Everything under `workspaces:`."""

    section: ClassVar[str] = "workspaces"
    about: ClassVar[str] = "Files that the models read and write for a user."

    at_start: ClassVar[tuple[str, ...]] = ("folder",)

    enabled: bool = True
    """Offer the tools that read and write files."""

    folder: str = Field("data/workspaces", min_length=1)
    """The folder of all workspaces: in it one per user and shared place, which the bot makes."""

    user_bytes: int = Field(256_000_000, ge=10_000, le=MOST_DISK_BYTES)
    """The space that one user's files may take together, in bytes."""

    user_files: int = Field(20_000, ge=10, le=200_000)
    """Files and folders that one user may have."""

    place_bytes: int = Field(256_000_000, ge=10_000, le=MOST_DISK_BYTES)
    """The space that the files of one shared thread or channel may take together, in bytes."""

    place_files: int = Field(20_000, ge=10, le=200_000)
    """Files and folders that one shared thread or channel may have."""

    file_bytes: int = Field(10_000_000, ge=1_000, le=100_000_000)
    """The largest file that the tools read and write, in bytes."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folder of all workspaces."""
        return (Path(self.folder),)

    def quota_of(self, folder: str) -> "Quota":
        """Return the quota of the user or place whose files are in a folder of this name."""
        if folder.startswith(PLACES):
            return Quota("This place", self.place_bytes, self.place_files)
        return Quota("This user", self.user_bytes, self.user_files)


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of all files of one owner.

    Attributes:
        owner: The owner, as a sentence begins with it.
        size: Most bytes.
        count: Most files and folders.
    """

    owner: str
    size: int
    count: int


@dataclass(frozen=True, slots=True)
class SpaceUsage:
    """The space that the files of a user or place take.

    Attributes:
        size: In bytes.
        count: Files and folders.
    """

    size: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of a write on the space taken.

    Attributes:
        before: The current size of the file, 0 for none.
        after: Its size afterwards.
        made: Files and folders that it adds.
    """

    before: int
    after: int
    made: int


def check_total(quota: Quota, usage: SpaceUsage, change: Change) -> None:
    """Raise if a change would exceed the quota. Only growth is checked.

    Raises:
        ToolError: The change would exceed a limit.
    """
    grows = change.made > 0 or change.after > change.before
    if grows and change.made >= 0 and usage.count + change.made > quota.count:
        raise ToolError(
            f"{quota.owner} would have {usage.count + change.made:,} files and folders, and "
            f"{quota.count:,} is the most. {MAKE_ROOM}"
        )
    size = usage.size - change.before + change.after
    if change.after > change.before and size > quota.size:
        raise ToolError(
            f"{quota.owner}'s files would take {spoken(size)} together, and "
            f"{spoken(quota.size)} is the most. {MAKE_ROOM}"
        )
