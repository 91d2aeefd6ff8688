"""The folder of the configuration and the data: named, here, or where the platform keeps data."""

import os
import sys
from pathlib import Path

import pytest

from bot.console import Home, find_home
from bot.errors import ConfigError


def test_the_variable_comes_first(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").touch()

    home = find_home({"RETINUE_HOME": "/srv/retinue"}, tmp_path, named=True)

    assert (home.path, home.reason) == (Path("/srv/retinue"), "RETINUE_HOME names it")


def test_a_home_that_is_named_relatively_begins_in_the_current_folder(tmp_path: Path) -> None:
    assert find_home({"RETINUE_HOME": "bot"}, tmp_path, named=False).path == tmp_path / "bot"


@pytest.mark.parametrize("sign", ["config.yaml", "data/retinue.db"])
def test_a_folder_with_a_configuration_or_a_database_is_a_home(tmp_path: Path, sign: str) -> None:
    (tmp_path / sign).parent.mkdir(exist_ok=True)
    (tmp_path / sign).touch()

    home = find_home({}, tmp_path, named=False)

    assert (home.path, sign in home.reason) == (tmp_path, True)


def test_paths_of_a_configuration_that_is_named_begin_in_the_current_folder(tmp_path: Path) -> None:
    assert find_home({}, tmp_path, named=True).path == tmp_path


@pytest.mark.parametrize(
    ("platform", "environ", "below"),
    [
        ("linux", {}, ".local/share/retinue"),
        ("linux", {"XDG_DATA_HOME": "relative"}, ".local/share/retinue"),
        ("darwin", {}, "Library/Application Support/retinue"),
    ],
)
def test_otherwise_it_is_where_the_platform_keeps_data(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    platform: str,
    environ: dict[str, str],
    below: str,
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", "/home/alice")

    assert find_home(environ, tmp_path, named=False).path == Path("/home/alice", below)


def test_the_folder_that_the_desktop_names_is_taken_on_linux(tmp_path: Path) -> None:
    home = find_home({"XDG_DATA_HOME": "/var/data"}, tmp_path, named=False)

    assert home.path == Path("/var/data/retinue")


def test_entering_makes_the_folder_for_this_account_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    Home(tmp_path / "a/b", "").enter()

    assert Path.cwd() == tmp_path / "a/b"
    assert Path.cwd().stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_used_is_told_with_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    before = Path.cwd()

    with pytest.raises(ConfigError, match=r"file/home cannot be used \(.*\): set RETINUE_HOME"):
        Home(tmp_path / "file/home", "").enter()

    assert os.fspath(before) == str(Path.cwd())
