"""Python packages for commands: installed from wheels, recorded, and compared with the wanted."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from bot.__main__ import build
from bot.config.model import Config
from bot.errors import ConfigError
from bot.values import utc_now
from skills.shell.host import python_below_usr
from skills.shell.installing import alone, install, python_version, variables_of
from skills.shell.output import CommandOutput
from skills.shell.packages import PackageSet, difference, hint, installed, python_folder
from skills.shell.report import packages as reported
from skills.shell.settings import ShellSettings
from tests.skills.shell.wheels import put_source, put_wheel

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not python_below_usr(), reason="there is no python3 below /usr"),
]


NOTHING: Mapping[str, str] = {}


@dataclass
class Machine:
    """A folder for the sets, and one with the wheels that the installer finds."""

    folder: Path
    wheels: Path

    def settings(self, *packages: str) -> ShellSettings:
        return ShellSettings(folder=str(self.folder), python_packages=packages)

    @property
    def environ(self) -> Mapping[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder.parent),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
        }

    def install(
        self, *packages: str, upgrade: bool = False, further: Mapping[str, str] = NOTHING
    ) -> PackageSet | None:
        return install(
            self.settings(*packages),
            python_below_usr(),
            {**self.environ, **further},
            now=utc_now(),
            upgrade=upgrade,
        )

    @property
    def found(self) -> PackageSet | None:
        return installed(python_folder(self.settings()))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    put_wheel(tmp_path / "wheels", "hens")
    put_wheel(tmp_path / "wheels", "barns", needs="hens")
    return Machine(tmp_path / "shell", tmp_path / "wheels")


def test_packages_are_installed_with_what_they_need_and_their_versions_recorded(
    machine: Machine,
) -> None:
    found = machine.install("barns")

    assert found == machine.found
    assert found is not None
    assert (found.wanted, found.versions) == (("barns",), {"barns": "1.0", "hens": "1.0"})
    assert found.python == python_version(python_below_usr())
    assert reported(machine.settings("barns")) == (
        f"Python packages, for Python {found.python}: barns 1.0"
    )


def test_a_set_names_no_path_of_the_machine_and_every_account_can_read_it(
    machine: Machine,
) -> None:
    before = os.umask(0o077)
    try:
        found = machine.install("barns")
    finally:
        os.umask(before)

    assert found is not None
    paths = [path for path in found.environment.rglob("*") if not path.is_symlink()]
    texts = [path.read_bytes() for path in paths if path.is_file()]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in paths}
    assert not [text for text in texts if str(machine.folder).encode() in text]
    assert "/run/python/bin/python" in (found.environment / "bin/barns").read_text()
    assert [path.name for path in paths if path.match("__pycache__/barns.*.pyc")]
    assert modes == {0o755, 0o644}


def test_versions_stay_until_an_upgrade(machine: Machine) -> None:
    machine.install("barns")
    put_wheel(machine.wheels, "hens", "2.0")

    again = machine.install("barns")
    upgraded = machine.install("barns", upgrade=True)

    assert again is not None
    assert upgraded is not None
    assert again.versions["hens"] == "1.0"
    assert upgraded.versions["hens"] == "2.0"


@pytest.mark.parametrize("further", [{}, {"PIP_NO_BINARY": ":all:"}])
def test_nothing_is_built_and_what_was_installed_stays(
    machine: Machine, tmp_path: Path, further: dict[str, str]
) -> None:
    machine.install("hens")
    put_source(machine.wheels, "sources", tmp_path / "built")

    with pytest.raises(ConfigError, match="without a wheel for this Python are not built"):
        machine.install("hens", "sources", further=further)

    found = machine.found
    assert found is not None
    assert found.wanted == ("hens",)
    assert not (tmp_path / "built").exists()
    folder = python_folder(machine.settings())
    assert {path.name for path in folder.iterdir()} == {"current", found.folder.name}


def test_the_installer_gets_none_of_the_secrets_of_the_bot(machine: Machine) -> None:
    given = {"DISCORD_TOKEN": "canary", "PIP_TARGET": "/etc", "https_proxy": "http://proxy"}

    passed = variables_of({**machine.environ, **given})

    assert passed == {**machine.environ, "https_proxy": "http://proxy"}


def test_the_former_set_stays_for_commands_at_work_and_older_ones_go(machine: Machine) -> None:
    sets = [machine.install("hens"), machine.install("barns"), machine.install("hens", "barns")]

    there = {each.folder.exists() for each in sets[1:] if each}
    assert sets[0] is not None
    assert not sets[0].folder.exists()
    assert there == {True}


def test_without_packages_none_are_installed_any_more(machine: Machine) -> None:
    machine.install("hens")

    assert machine.install() is None
    assert machine.found is None
    assert difference(machine.settings(), machine.found, "3.11") == ""


def test_without_a_python_it_is_said_what_to_do(machine: Machine) -> None:
    with pytest.raises(ConfigError, match=r"no python3 in /usr/bin .*apt install python3"):
        install(machine.settings("hens"), "", machine.environ, now=utc_now())


def test_two_installations_at_once_are_refused(machine: Machine) -> None:
    folder = python_folder(machine.settings())
    folder.mkdir(parents=True)

    with (
        alone(folder),
        pytest.raises(ConfigError, match="are being installed already"),
    ):
        machine.install("hens")


@pytest.mark.parametrize(
    "text",
    [
        *("git+https://host/x", "./x", "/etc/x.whl", "-r x.txt", "--pre", "x @ https://host/x"),
        *("x; os_name == 'nt'", "x==", "x y", "", "x\n--pre", "x==1 --hash=sha256:00"),
    ],
)
def test_only_names_with_versions_are_packages(text: str) -> None:
    with pytest.raises(ValidationError, match="is no package: give its name"):
        ShellSettings(python_packages=(text,))


def test_packages_are_wanted_once_each_however_they_are_spaced() -> None:
    given = ("pypdf", "openpyxl >= 3.1, < 4", "openpyxl>=3.1,<4", "Pillow[fpx]", "x==1.*")

    wanted = ShellSettings(python_packages=given).wanted_packages

    assert wanted == ("Pillow[fpx]", "openpyxl>=3.1,<4", "pypdf", "x==1.*")
    assert Config(shell=ShellSettings(python_packages=given))


SET = PackageSet(folder=Path("x"), wanted=("a", "b"), python="3.11", versions={"a": "1"})


@pytest.mark.parametrize(
    ("wanted", "found", "python", "said"),
    [
        ((), None, "", ""),
        (("a", "b"), SET, "3.11", ""),
        (("a",), None, "", "not installed: a. Run `python -m bot packages install`"),
        (
            ("b", "c"),
            SET,
            "3.11",
            "not installed: c; installed and no longer in `shell.python_packages`: a. Run "
            "`python -m bot packages install`",
        ),
        (
            ("a", "b"),
            SET,
            "3.12",
            "installed for Python 3.11, and commands have Python 3.12. Run "
            "`python -m bot packages install`",
        ),
    ],
)
def test_it_is_said_how_the_set_differs_and_which_command_changes_that(
    wanted: tuple[str, ...], found: PackageSet | None, python: str, said: str
) -> None:
    assert difference(ShellSettings(python_packages=wanted), found, python) == said


def test_a_missing_module_is_explained_with_the_command_of_the_admin() -> None:
    output = CommandOutput("Traceback\nModuleNotFoundError: No module named 'docx.shared'\n")

    settings = ShellSettings(python_packages=("a", "b"))
    missing = hint(output, settings, SET)
    pending = hint(CommandOutput("", "python3: No module named pip"), settings, None)

    assert missing == (
        "Python has no module `docx.shared` here. Unless it is a file of yours, an admin of the "
        "machine has to add its package to `shell.python_packages` in config.yaml and run "
        "`python -m bot packages install`. Nothing can be installed from the sandbox, which has "
        "no network: go on without it, or tell the user."
    )
    assert "packages that the configuration names are not installed yet" in pending
    assert hint(CommandOutput("fine"), settings, SET) == ""


@pytest.mark.parametrize("text", ["", "../../etc", "0123456789abcdef", "\0"])
def test_a_record_that_makes_no_sense_is_no_set(machine: Machine, text: str) -> None:
    folder = python_folder(machine.settings())
    folder.mkdir(parents=True)
    (folder / "current").write_text(text)

    assert machine.found is None


@pytest.mark.usefixtures("kept_log")
def test_an_admin_installs_and_lists_by_commands(machine: Machine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("shell: {python_packages: [barns], folder: kept}\n")
    environ = {**machine.environ, "RETINUE_HOME": str(home), "PIP_CONSTRAINT": ""}
    runner = CliRunner(env=environ)
    before = Path.cwd()
    try:
        said = [
            runner.invoke(build(), ["packages", command]).output
            for command in ("list", "install", "list")
        ]
    finally:
        os.chdir(before)

    version = python_version(python_below_usr())
    line = f"Python packages, for Python {version}: barns 1.0\n"
    assert said[0] == (
        "Python packages NOT AS CONFIGURED: not installed: barns. Run "
        "`python -m bot packages install`\n"
    )
    assert said[1].endswith(line)
    assert said[2] == f"barns==1.0\nhens==1.0\n{line}"


def test_a_record_names_no_folder_elsewhere(machine: Machine) -> None:
    found = machine.install("hens")
    assert found is not None
    found.folder.rename(machine.folder / "elsewhere")
    (python_folder(machine.settings()) / "current").write_text("../elsewhere")

    assert machine.found is None
