"""A folder is swapped for a link all the time: nothing leaks, where the usual check does."""

import ctypes
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.errors import ToolError
from skills.files.patterns import expression, path_pattern
from skills.files.search import newest, search
from tests.skills.files.conftest import MINE, THEIRS, Trap

READS, LOOKS = 20_000, 300
HERE, RENAME_EXCHANGE = -100, 2
PATIENCE_SECONDS = 40


@dataclass(frozen=True)
class Bare:
    """The same without a workspace, for a program that does it the usual way."""

    inside: Path
    outside: Path


@pytest.fixture
def race(trap: Trap) -> Iterator[Trap]:
    """A trap in which `box` is at times a folder of the workspace, at times a link out of it."""
    trap.workspace.write("box/file.txt", MINE)
    # A second name is a reason of its own to refuse a file.
    (trap.inside / "hard").unlink()
    (trap.inside / "other").symlink_to(trap.outside)
    (trap.outside / "theirs.txt").write_bytes(THEIRS)
    with swapped(trap.inside / "box", trap.inside / "other"):
        yield trap


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Bare]:
    found = Bare(tmp_path / "inside", tmp_path / "outside")
    (found.inside / "box").mkdir(parents=True)
    found.outside.mkdir()
    (found.inside / "box/file.txt").write_bytes(MINE)
    (found.inside / "other").symlink_to(found.outside)
    for name in ("file.txt", "theirs.txt"):
        (found.outside / name).write_bytes(THEIRS)
    with swapped(found.inside / "box", found.inside / "other"):
        yield found


@contextmanager
def swapped(one: Path, other: Path) -> Iterator[None]:
    """Let two names change places all the time, so that both are always there."""
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    names = (HERE, os.fsencode(one), HERE, os.fsencode(other), RENAME_EXCHANGE)
    done = threading.Event()
    failed = []

    def swap() -> None:
        while not done.is_set():
            if exchange(*names):
                failed.append(ctypes.get_errno())

    thread = threading.Thread(target=swap, name="swap")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert not failed


def checked_then_opened(top: Path, path: str) -> Path:
    """Return a path as most programs would check it: what it is now, not when it is opened."""
    real = os.path.realpath(top / path)
    if not real.startswith(f"{os.path.realpath(top)}/"):
        raise ToolError("Outside.")
    return top / path


def until_it_leaks(attempt: Callable[[], bool]) -> bool:
    for _ in rounds(0, lambda: False):
        with suppress(OSError, ToolError):
            if attempt():
                return True
    return False


def rounds(least: int, both_have_won: Callable[[], bool]) -> Iterator[int]:
    """Count rounds: at least so many, and further ones until the race was one, or none is left.

    On a busy machine one side can win for hundreds of rounds.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    for count in itertools.count():
        if count >= least and (both_have_won() or time.monotonic() > end):
            return
        yield count


def test_no_read_of_many_thousands_leaks(race: Trap) -> None:
    counts = {MINE: 0, THEIRS: 0, b"refused": 0}
    with race.workspace.opened() as folder:
        for _ in rounds(READS, lambda: counts[MINE] > 0 and counts[b"refused"] > 0):
            try:
                content = race.workspace.read_in(folder, ("box", "file.txt"))
            except (OSError, ToolError):
                content = b"refused"
            counts[content] += 1

    assert counts[THEIRS] == 0
    # It was a race, and both could win.
    assert counts[MINE] > 0
    assert counts[b"refused"] > 0


def test_the_usual_check_does_leak_in_this_race(bare: Bare) -> None:
    def attempt() -> bool:
        return checked_then_opened(bare.inside, "box/file.txt").read_bytes() == THEIRS

    assert until_it_leaks(attempt)


def test_no_write_leads_out(race: Trap) -> None:
    before, written = race.outside_now(), set[str]()
    for count in rounds(LOOKS, lambda: bool(written)):
        path = f"box/new{count}.txt" if count % 2 else "box/file.txt"
        with suppress(ToolError):
            race.workspace.write(path, MINE)
            written.add(path)

    assert race.outside_now() == before
    assert written


def test_the_usual_check_does_write_outside_in_this_race(bare: Bare) -> None:
    def attempt() -> bool:
        checked_then_opened(bare.inside, "box/leaked.txt").write_bytes(MINE)
        return (bare.outside / "leaked.txt").exists()

    assert until_it_leaks(attempt)


def test_no_look_through_the_folders_leads_out(race: Trap) -> None:
    wanted = expression("THEIRS|mine")
    seen: set[str] = set()
    lines: set[str] = set()
    for _ in rounds(LOOKS, lambda: "box/file.txt" in seen and bool(lines)):
        with suppress(ToolError):
            seen.update(newest(race.workspace, "", path_pattern("**"), 100)[0])
            lines.update(hit.text for hit in search(race.workspace, wanted, most=100).hits)

    assert not any("theirs" in path for path in seen)
    assert "box/file.txt" in seen
    assert lines == {"mine"}


def test_the_usual_walk_does_lead_out_in_this_race(bare: Bare) -> None:
    def attempt() -> bool:
        return any("theirs.txt" in names for _, _, names in os.walk(bare.inside))

    assert until_it_leaks(attempt)
