"""The wheel: built, installed into an environment of its own, and used from an empty folder."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from migrations.version import SCHEMA_VERSION

ROOT = Path(__file__).parents[1]
PARTS = (
    *("bot", "db", "migrations", "skills", "agents"),
    *("pyproject.toml", "README.md", "LICENSE", "config.example.yaml", "docs/config.schema.json"),
)

#: One test process builds it, and the others do without.
pytestmark = pytest.mark.xdist_group("wheel")

Retinue = Callable[..., subprocess.CompletedProcess[str]]


@dataclass(frozen=True)
class Wheel:
    """A wheel, and the program of an environment that it was installed in."""

    path: Path
    program: Path

    @property
    def names(self) -> set[str]:
        with zipfile.ZipFile(self.path) as packed:
            return set(packed.namelist())

    def read(self, name: str) -> str:
        with zipfile.ZipFile(self.path) as packed:
            [found] = [each for each in packed.namelist() if each.endswith(name)]
            return packed.read(found).decode()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for part in PARTS:
        (source / part).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, source / part, symlinks=True, ignore=ignored)
        else:
            shutil.copyfile(ROOT / part, source / part)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    build = ("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    done(*pip, *build, "--wheel-dir", str(folder), str(source))
    [path] = folder.glob("retinue-*.whl")
    environment = folder / "environment"
    done(sys.executable, "-m", "venv", "--without-pip", str(environment))
    python = str(environment / "bin/python")
    done(*pip, "--python", python, "install", "--no-deps", "--no-index", "--quiet", str(path))
    # The libraries of this environment, in place of a download.
    [packages] = environment.glob("lib/python*/site-packages")
    ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "libraries.pth").write_text("\n".join(sorted(ours)))
    return Wheel(path, environment / "bin/retinue")


def done(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture
def retinue(wheel: Wheel, tmp_path: Path) -> Retinue:
    """Runs the program as somebody new, in an empty folder."""
    here = tmp_path / "here"
    here.mkdir()

    def start(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        kept = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "alice"), "PYTHONUTF8": "1"}
        return subprocess.run(
            [str(wheel.program), *arguments],
            cwd=here,
            env=kept | environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    return start


def test_all_that_is_no_code_is_in_it(wheel: Wheel) -> None:
    agents = {f"bot/builtin/agents/{file.name}" for file in (ROOT / "agents").glob("*.md")}
    migrations = {
        f"migrations/versions/{file.name}" for file in (ROOT / "migrations/versions").glob("*.py")
    }

    scripts = {
        f"skills/shell/scripts/{file.name}" for file in (ROOT / "skills/shell/scripts").glob("*.sh")
    }

    assert len(scripts) == 2
    prompts = {f"bot/builtin/prompts/{name}.md" for name in ("main", "subagent", "data")}
    tables = {
        str(file.relative_to(ROOT))
        for each in ("bot", "skills")
        for file in (ROOT / each).rglob("*.toml")
    }
    others = {*prompts, *scripts, *tables, "migrations/script.py.mako"}
    assert agents | migrations | others <= wheel.names
    for name in ("config.example.yaml", "docs/config.schema.json"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert wheel.read(f"bot/builtin/{Path(name).name}") == text


def test_every_module_is_in_it_and_no_test(wheel: Wheel) -> None:
    folders = ("bot", "db", "migrations", "skills")
    modules = {
        str(file.relative_to(ROOT)) for each in folders for file in (ROOT / each).rglob("*.py")
    }

    assert {name for name in wheel.names if name.endswith(".py")} == modules


def test_what_brings_another_http_library_is_an_extra(wheel: Wheel) -> None:
    needed = [
        line for line in wheel.read("METADATA").splitlines() if line.startswith("Requires-Dist:")
    ]

    assert "License-Expression: Apache-2.0" in wheel.read("METADATA")
    [caldav] = [line for line in needed if "caldav" in line]
    assert 'extra == "calendar"' in caldav


def test_no_library_brings_what_the_pins_leave_out(wheel: Wheel) -> None:
    """A plain resolve of the wheel follows what each library needs in turn."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"]
    left_out = {Requirement(each).name for each in settings["override-dependencies"]}
    needed = [
        Requirement(line.removeprefix("Requires-Dist: "))
        for line in wheel.read("METADATA").splitlines()
        if line.startswith("Requires-Dist:")
    ]

    plain, with_calendar = brought_by(needed), brought_by(needed, "calendar")

    assert {"aiohttp", "urllib3"} <= plain
    assert not left_out & plain
    assert left_out <= with_calendar


def brought_by(requirements: Iterable[Requirement], *extras: str) -> set[str]:
    """Return the names of all libraries that an installation brings."""
    seen: set[tuple[str, str]] = set()
    waiting = [(each, extras) for each in requirements]
    while waiting:
        each, wanted = waiting.pop()
        if each.marker and not any(
            each.marker.evaluate({"extra": extra}) for extra in ("", *wanted)
        ):
            continue
        key = canonicalize_name(each.name), ",".join(sorted(each.extras))
        if key in seen:
            continue
        seen.add(key)
        # What is left out has no metadata here.
        with suppress(PackageNotFoundError):
            further = metadata.requires(each.name) or ()
            waiting += [(Requirement(line), tuple(each.extras)) for line in further]
    return {name for name, _ in seen}


def test_it_says_its_version(wheel: Wheel, retinue: Retinue) -> None:
    version = wheel.path.name.split("-")[1]

    ended = retinue("--version")

    assert (ended.stdout, ended.stderr) == (f"retinue {version}, tables {SCHEMA_VERSION}\n", "")


def test_check_lists_the_agents_that_come_with_it(retinue: Retinue) -> None:
    ended = retinue("check")

    assert (ended.returncode, ended.stderr) == (0, "")
    for file in (ROOT / "agents").glob("*.md"):
        assert file.stem in ended.stdout
    assert "`retinue chat`" in ended.stdout
    assert "python -m bot" not in ended.stdout


def test_it_answers_and_keeps_its_data_where_the_platform_does(
    retinue: Retinue, tmp_path: Path
) -> None:
    ended = retinue("ask", "what", "time", "is", "it")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert " in UTC" in ended.stdout
    home = tmp_path / "alice/.local/share/retinue"
    assert (home / "data/retinue.db").stat().st_mode & 0o777 == 0o600
    assert list((tmp_path / "here").iterdir()) == []
    assert f"✓ Home       {home}: no RETINUE_HOME" in retinue("doctor").stdout


def test_it_keeps_its_data_where_it_is_told(retinue: Retinue, tmp_path: Path) -> None:
    ended = retinue("migrate", RETINUE_HOME=str(tmp_path / "home"))

    assert SCHEMA_VERSION in ended.stdout
    assert (tmp_path / "home/data/retinue.db").exists()


def test_its_example_loads_and_names_its_schema(retinue: Retinue, tmp_path: Path) -> None:
    text = retinue("example").stdout
    (tmp_path / "here/config.yaml").write_text(text, encoding="utf-8")

    ended = retinue("check")

    assert (ended.returncode, ended.stderr) == (0, "")
    said = " ".join(ended.stdout.split())
    assert f"{tmp_path}/here: the current folder, since it holds config.yaml" in said
    schema = text.splitlines()[0].partition("$schema=")[2]
    assert Path(schema).is_file()
