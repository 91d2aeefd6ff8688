"""Folders whose permissions forbid to look into them: their files count and can be removed."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from bot.files.opener import FOLDER, by_walking, opened_path
from skills.files.tree import levels, remove_tree


def as_no_root(folder: int, parts: Sequence[str], flags: int) -> int:
    """Open as an account that is not root and owns everything."""
    descriptor = by_walking(folder, parts, flags)
    if flags == FOLDER and not os.fstat(descriptor).st_mode & 0o400:
        os.close(descriptor)
        raise PermissionError
    return descriptor


@pytest.fixture(params=["as on Linux", "as on macOS"])
def holder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with others in it that nobody may read."""
    if request.param == "as on macOS":
        monkeypatch.delattr(os, "O_PATH")
    holder = tmp_path / "holder"
    (holder / "top/deeper").mkdir(parents=True)
    (holder / "top/deeper/file").write_bytes(b"x")
    for folder in (holder / "top/deeper", holder / "top"):
        folder.chmod(0)
    return holder


def test_files_in_folders_that_forbid_it_are_seen(holder: Path) -> None:
    with opened_path(holder) as folder:
        seen = [
            "/".join((*level.parts, name))
            for level in levels(as_no_root, folder)
            for name, _ in level.entries
        ]

    assert seen == ["top", "top/deeper", "top/deeper/file"]


def test_folders_that_forbid_it_are_removed_with_all_that_is_in_them(holder: Path) -> None:
    with opened_path(holder) as folder:
        remove_tree(as_no_root, folder, "top")

    assert list(holder.iterdir()) == []


def test_a_link_in_the_place_of_a_folder_is_not_followed(holder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o000)
    (holder / "link").symlink_to(outside)

    with opened_path(holder) as folder, pytest.raises(OSError, match=r"."):
        remove_tree(as_no_root, folder, "link")

    assert outside.stat().st_mode & 0o777 == 0
