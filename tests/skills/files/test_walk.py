"""A look through folders ends, whatever they hold, and shows each entry for what it is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.files.opener import FOLDER, Opener
from bot.files.walk import EntryKind, FolderWalk
from tests.skills.files.conftest import Trap


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[int]:
    for path in ("b/two.txt", "b/deep/three.txt", "a/one.txt", ".git/config", "c.txt"):
        file = tmp_path / "tree" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path)
    folder = os.open(tmp_path / "tree", FOLDER)
    yield folder
    os.close(folder)


def test_everything_is_shown_once_in_the_order_of_names(opener: Opener, tree: int) -> None:
    walk = FolderWalk(opener, tree, most=100)

    assert [entry.path for entry in walk] == [
        ".git", ".git/config", "a", "a/one.txt", "b", "b/deep", "b/deep/three.txt", "b/two.txt",
        "c.txt",
    ]  # fmt: skip
    assert not walk.cut


def test_some_folders_are_shown_and_not_gone_into(opener: Opener, tree: int) -> None:
    entries = list(FolderWalk(opener, tree, most=100, skip=frozenset({".git"}), deepest=2))

    assert [entry.path for entry in entries if entry.skipped] == [".git", "b/deep"]
    assert "b/deep/three.txt" not in [entry.path for entry in entries]


@pytest.mark.parametrize("most", range(9))
def test_a_walk_ends_after_so_many_entries_and_says_so(
    opener: Opener, tree: int, most: int
) -> None:
    walk = FolderWalk(opener, tree, most=most)

    assert len(list(walk)) == most
    assert walk.cut


def test_a_walk_ends_when_its_time_is_up(opener: Opener, tree: int) -> None:
    walk = FolderWalk(opener, tree, most=100, until=0)

    assert list(walk) == []
    assert walk.cut


def test_links_and_special_files_are_shown_as_such_and_not_followed(trap: Trap) -> None:
    with trap.workspace.walk("") as looking:
        kinds = {entry.path: entry.kind for entry in looking.entries}

    assert kinds == {
        "a": EntryKind.FOLDER,
        "a/file.txt": EntryKind.FILE,
        "fifo": EntryKind.OTHER,
        "hard": EntryKind.FILE,
        "socket": EntryKind.OTHER,
        **dict.fromkeys(("link", "loop", "near", "parent", "passwd", "root", "up"), EntryKind.LINK),
    }


def test_folders_in_each_other_without_end_are_left_at_some_depth(
    opener: Opener, tmp_path: Path
) -> None:
    here = os.open(tmp_path, FOLDER)
    top = os.dup(here)
    for _ in range(300):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", FOLDER, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    entries = list(FolderWalk(opener, top, most=1_000))

    assert len(entries) == 64
    assert entries[-1].skipped
    os.close(top)
