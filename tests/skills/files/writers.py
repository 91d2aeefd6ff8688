"""What the other process does in the tests of two writers."""

from collections.abc import Callable
from contextlib import suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path

from bot.errors import ToolError
from bot.values import Identity
from skills.files.settings import WorkspaceSettings
from skills.files.workspace import Workspace
from skills.files.workspaces import Workspaces
from tests.fakes.clock import FakeClock
from tests.skills.files.conftest import context_of

ALICE = Identity("discord", "", "1001")


def workspace_in(folder: Path, user_bytes: int) -> Workspace:
    settings = WorkspaceSettings(folder=str(folder), user_bytes=user_bytes)
    return Workspaces(settings).of(context_of(ALICE, FakeClock()))


def at_once(start: Barrier, work: Callable[..., None], given: tuple[object, ...]) -> None:
    """Do some work as soon as all others are ready too."""
    start.wait(30)
    work(*given)


def fill(folder: str, user_bytes: int, letter: str) -> None:
    """Write files until all room is taken."""
    workspace = workspace_in(Path(folder), user_bytes)
    for number in range(60):
        with suppress(ToolError):
            workspace.write(f"{letter}{number}.txt", letter.encode() * 10_000)


def rewrite(folder: str, letter: str, times: int) -> None:
    """Write one file again and again."""
    workspace = workspace_in(Path(folder), 10_000_000)
    for _ in range(times):
        workspace.write("shared.txt", letter.encode() * 300_000)


def count_up(folder: str, times: int) -> None:
    """Edit a number in a file."""
    workspace = workspace_in(Path(folder), 10_000_000)
    for _ in range(times):
        workspace.edit("number.txt", lambda content: str(int(content) + 1).encode())
