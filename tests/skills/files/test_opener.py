"""Nothing outside of the workspace is reached, whatever the path, and whatever was planted."""

import itertools
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.errors import ToolError
from bot.files.opener import FOLDER, Opener, best_opener, opened, opened_file, parts_of
from tests.skills.files.conftest import MINE, THEIRS, Trap

FRAGMENTS = (
    "..", ".", "", "a", "file.txt", "link", "parent", "root", "up", "loop", "near", "hard", "fifo",
    "socket", "passwd", "etc", "proc", "self", "outside", "...", "..\\..", "．．", "․․", "%2e%2e",
    "..;", ".. ", "~", "∕etc∕passwd", "a\0", "fi\u200ble.txt", "\ud800", "x" * 300, "a.",
    "\u202e..",
)  # fmt: skip

REFUSALS = (
    ("/etc/passwd", "does not begin in the workspace: give a path from its top folder"),
    ("~/x", "does not begin in the workspace"),
    ("../../etc/passwd", "leaves its folder: give a path without `..`"),
    ("a/../../x", "leaves its folder"),
    ("a\0b", "characters in it that nobody can see"),
    ("a\nb", "characters in it that nobody can see"),
    ("a\u202eb", "characters in it that nobody can see"),
    ("\ud800", "characters in it that nobody can see"),
    ("x" * 241, "a name of more than 240 bytes"),
    ("a/" * 40 + "b", "more than 32 folders"),
    ("y" * 1001, "The path has 1,001 characters"),
    ("", "Name a file"),
    ("././", "Name a file"),
    ("nothing.txt", "There is no nothing.txt. See file_list or glob"),
    ("...", r"There is no \.\.\.\."),
    ("..\\..\\etc", "There is no"),
    ("．．/etc", "There is no"),
    ("link", "link is a link, or lies behind one, and links are not followed"),
    ("near", "near is a link"),
    ("passwd", "passwd is a link"),
    ("loop", "loop is a link"),
    ("parent/file.txt", "parent/file.txt is a link, or lies behind one"),
    ("root/etc/passwd", "root/etc/passwd is a link, or lies behind one"),
    ("up/own/a/file.txt", "is a link, or lies behind one"),
    ("hard", "hard has several names"),
    ("fifo", "fifo is a device, a pipe or a socket"),
    ("socket", "socket is a device, a pipe or a socket"),
    ("a", "a is a folder: name a file in it"),
    ("a/file.txt/x", "leads through a file as if it were a folder"),
)


@pytest.mark.parametrize(("path", "said"), REFUSALS, ids=lambda value: ascii(value)[:30])
def test_what_cannot_be_read_is_said_in_a_sentence(trap: Trap, path: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        trap.workspace.read(path)


@pytest.mark.parametrize("path", ["a/file.txt", "./a//file.txt", "a/./file.txt/"])
def test_a_file_is_read_by_any_plain_spelling_of_its_path(trap: Trap, path: str) -> None:
    assert trap.workspace.read(path) == MINE


def test_no_path_of_these_pieces_leads_out(trap: Trap) -> None:
    """Reads with each of some 36,000 paths, and writes with every 400th."""
    before, reached = trap.outside_now(), 0
    with trap.workspace.opened() as folder:
        for count, pieces in enumerate(itertools.product(FRAGMENTS, repeat=3)):
            path = "/".join(pieces)
            try:
                parts = parts_of(path)
                with opened_file(trap.workspace.opener, folder, parts) as (descriptor, _):
                    assert os.read(descriptor, 100) == MINE, path
                reached += 1
            except (ToolError, OSError):
                pass
            if count % 400 == 0 and path.strip("./") not in {"a/file.txt", "a/./file.txt"}:
                try_to_write(trap, path)

    assert reached > 0
    assert trap.outside_now() == before


def try_to_write(trap: Trap, path: str) -> None:
    with suppress(ToolError):
        trap.workspace.write(path, MINE)


@given(
    path=st.text(max_size=40)
    | st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=6).map("/".join)
)
@settings(max_examples=300)
def test_any_path_gives_the_own_file_or_a_sentence(trap: Trap, path: str) -> None:
    answer = read_or_told(trap, path)

    assert answer == MINE or str(answer).endswith(".")


def read_or_told(trap: Trap, path: str) -> bytes | str:
    try:
        return trap.workspace.read(path)
    except ToolError as error:
        return str(error)


@given(path=st.text())
def test_the_names_in_a_path_never_lead_upwards(path: str) -> None:
    try:
        parts = parts_of(path)
    except ToolError:
        return
    assert not {"", ".", ".."} & set(parts)
    assert not any("/" in part or "\0" in part for part in parts)


@pytest.mark.parametrize(
    ("top", "parts"),
    [
        ("/proc/self", ("root", "etc", "passwd")),
        ("/proc/self", ("cwd",)),
        ("/proc/self/fd", ("0",)),
        ("/", ("proc", "self", "environ")),
        ("/", ("proc", "version")),
        ("/", ("proc", "sys", "kernel", "ostype")),
        ("/usr", ("..", "etc", "passwd")),
        ("/usr", ("bin", "..", "..", "etc", "passwd")),
    ],
)
def test_an_opener_alone_leads_nowhere_else(
    opener: Opener, top: str, parts: tuple[str, ...]
) -> None:
    """Not even with names that `parts_of` refuses."""
    folder = os.open(top, FOLDER)
    try:
        with pytest.raises(OSError, match=r"."):  # noqa: SIM117 - what may raise stands alone
            with opened(opener, folder, parts, os.O_RDONLY):
                pytest.fail("It was opened.")
    finally:
        os.close(folder)


def test_a_device_is_no_file(opener: Opener) -> None:
    folder = os.open("/dev", FOLDER)
    try:
        with (
            pytest.raises(ToolError, match="null is a device"),
            opened_file(opener, folder, ("null",)),
        ):
            pass
    finally:
        os.close(folder)


def test_writing_over_a_link_or_a_second_name_changes_nothing_outside(trap: Trap) -> None:
    before = trap.outside_now()

    for name in ("link", "passwd", "near", "loop", "parent", "fifo", "socket"):
        with pytest.raises(ToolError, match="only files are replaced: take another name"):
            trap.workspace.write(name, b"new")
    with pytest.raises(ToolError, match="lies behind one"):
        trap.workspace.write("parent/file.txt", b"new")
    with pytest.raises(ToolError, match="lies behind one"):
        trap.workspace.write("parent/deep/new.txt", b"new")
    trap.workspace.write("hard", b"new")

    assert trap.outside_now() == before
    assert trap.workspace.read("hard") == b"new"
    assert Path(trap.inside / "a/file.txt").read_bytes() == MINE


def test_a_folder_that_is_not_there_is_made_only_inside(trap: Trap) -> None:
    assert trap.workspace.write("new/deep/file.txt", b"x").created

    assert (trap.inside / "new/deep/file.txt").read_bytes() == b"x"
    assert (trap.inside / "new").stat().st_mode & 0o777 == 0o700
    assert (trap.inside / "new/deep/file.txt").stat().st_mode & 0o777 == 0o600


def test_the_best_opener_is_the_one_of_the_system_where_there_is_one(
    opener: Opener, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(THEIRS)
    folder = os.open(tmp_path, FOLDER)
    read: Callable[[Opener], bytes] = lambda each: _read(each, folder)  # noqa: E731
    try:
        assert read(best_opener()) == read(opener) == THEIRS
    finally:
        os.close(folder)


def _read(opener: Opener, folder: int) -> bytes:
    with opened(opener, folder, ("file",), os.O_RDONLY) as descriptor:
        return os.read(descriptor, 100)
