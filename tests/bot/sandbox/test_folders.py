"""Counting a folder that somebody fills with ill intent."""

import os
from pathlib import Path

from bot.sandbox.folders import MOST_LEVELS, contents_of, hand_over


def test_files_folders_and_links_count_at_all_depths(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(os.urandom(100_000))
    (tmp_path / "link").symlink_to("/usr")

    found = contents_of(tmp_path, 1000)

    assert found.count == 4
    assert 100_000 <= found.size < 150_000


def test_links_lead_nowhere(tmp_path: Path) -> None:
    for target in ("/", "/proc", ".", ".."):
        (tmp_path / f"to{target.replace('/', '-')}").symlink_to(target)

    assert contents_of(tmp_path, 1000).count == 4


def test_a_file_of_two_names_takes_its_place_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(os.urandom(100_000))
    (tmp_path / "two").hardlink_to(tmp_path / "one")

    found = contents_of(tmp_path, 1000)

    assert found.count == 2
    assert found.size < 150_000


def test_counting_ends_soon_after_the_most(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}").touch()

    assert contents_of(tmp_path, 10).count == 11


def test_a_folder_that_may_not_be_looked_into_is_looked_into(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    (locked / "file").write_bytes(os.urandom(100_000))
    locked.chmod(0)

    found = contents_of(tmp_path, 1000)

    assert found.count == 2
    assert found.size > 100_000


def test_what_is_nested_too_deep_is_told(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(MOST_LEVELS + 5):
        deep /= "d"
    deep.mkdir(parents=True)

    assert contents_of(tmp_path, 1000).too_deep


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert contents_of(tmp_path / "none", 1000).count == 0


def test_what_root_wrote_is_handed_over_and_nothing_behind_a_link(tmp_path: Path) -> None:
    folder, outside = tmp_path / "workspace", tmp_path / "outside"
    (folder / "a").mkdir(parents=True)
    outside.write_text("")
    (folder / "a" / "file").write_text("")
    (folder / "link").symlink_to(outside)

    # Only root can give files away.
    account = os.getuid() or 1_900_000_000

    hand_over(folder, account, 100)

    owners = {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}
    assert owners == {account}
    assert outside.stat().st_uid == os.getuid()
