"""Carries out the check-list of a release as far as a command can: `python -m tests.release`.

It needs git, the package index and some minutes, and changes nothing: it builds the package from
the commit, installs it by pip, uv and pipx into folders of their own, uses each as somebody new
would, and upgrades what the previous release wrote. What only a person can do is listed at the end.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from migrations.version import SCHEMA_VERSION

ROOT = Path(__file__).parents[1]
#: Longest time of one command, in seconds: an installation downloads a hundred packages.
LONGEST_SECONDS = 900
BY_HAND = (
    "Let CI pass on this commit: both parts of `.ci/run`, which run the tests.",
    "Try the release with real accounts: a message, a run and a file on Discord and Slack, and a "
    "question to each model provider that docs/models.md names.",
    "Build the image, start deploy/compose.yaml and the systemd unit on a machine that has them.",
    "Tag the commit (`git tag -s vVERSION`), push the tag, and publish the files to the index.",
    "Write the notes of the release from its section of CHANGELOG.md.",
    "Begin the next version: its number in pyproject.toml, and “## Unreleased” in CHANGELOG.md.",
)


class ReleaseError(Exception):
    """A point of the check-list that is not met; the text names the remedy."""


@dataclass(frozen=True)
class Place:
    """An empty home, in which a program is used.

    Attributes:
        folder: The home.
        further: Variables of the environment.
    """

    folder: Path
    further: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str, given: str = "") -> str:
        """Run a command to its end and return its output.

        Raises:
            ReleaseError: It failed.
        """
        kept = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("PIP_", "UV_", "SSL_", "LANG", "PATH"))
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=kept | {"HOME": str(self.folder), "PYTHONUTF8": "1"} | self.further,
            input=given,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )
        if ended.returncode:
            end = "\n".join((ended.stdout + ended.stderr).strip().splitlines()[-8:])
            raise ReleaseError(f"`{' '.join(command)}` ended with {ended.returncode}:\n{end}")
        return ended.stdout


@dataclass
class Release:
    """A release of the checked-out commit.

    Attributes:
        folder: Everything that the check makes.
        previous: The commit or tag of the release before; empty for the newest tag.
    """

    folder: Path
    previous: str = ""

    def __post_init__(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        self.version: str = project["version"]
        self.source = Place(ROOT)

    @property
    def wheel(self) -> Path:
        """The wheel, once it is built."""
        return next((self.folder / "dist").glob("*.whl"))

    def tree(self) -> str:
        """Check that the working tree is that of a commit."""
        if changed := self.source.run("git", "status", "--porcelain"):
            raise ReleaseError(f"Commit or remove these changes first:\n{changed.rstrip()}")
        return self.source.run("git", "log", "-1", "--format=%h %s").strip()

    def numbers(self) -> str:
        """Check the version: in CHANGELOG.md with a date, and not released before."""
        changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
        problem = problem_of(changes, self.version, self.tags())
        if problem:
            raise ReleaseError(problem)
        return f"{self.version}, tables {SCHEMA_VERSION}"

    def tags(self) -> list[str]:
        """Return the tags of releases, newest first."""
        return self.source.run("git", "tag", "--list", "v*", "--sort=-v:refname").split()

    def tools(self) -> str:
        """Install uv and pipx."""
        place = Place(self.folder / "tools")
        environment(place)
        place.run("environment/bin/python", "-m", "pip", "install", "--quiet", "uv", "pipx")
        return ", ".join(place.run(self.tool(each), "--version").strip() for each in ("uv", "pipx"))

    def tool(self, name: str) -> str:
        """Return the path of a tool."""
        return str(self.folder / "tools/environment/bin" / name)

    def build(self) -> str:
        """Build the source package, and the wheel from it."""
        dist = str(self.folder / "dist")
        self.source.run(self.tool("uv"), "build", "--quiet", "--out-dir", dist)
        return ", ".join(sorted(each.name for each in Path(dist).iterdir() if each.suffix != ""))

    def by_pip(self) -> str:
        """Install it by pip into an environment, and use it."""
        place = Place(self.folder / "pip")
        program = installed_by_pip(place, str(self.wheel))
        return used(place, program, self.version)

    def by_uv(self) -> str:
        """Install it by `uv tool install`, and use it."""
        place = Place(self.folder / "uv", {"UV_TOOL_BIN_DIR": str(self.folder / "uv/bin")})
        install = (self.tool("uv"), "tool", "install", "--quiet", "--python", sys.executable)
        place.run(*install, str(self.wheel))
        return used(place, str(self.folder / "uv/bin/retinue"), self.version)

    def by_pipx(self) -> str:
        """Install it by `pipx install`, and use it."""
        home = self.folder / "pipx"
        place = Place(home, {"PIPX_HOME": str(home / "tools"), "PIPX_BIN_DIR": str(home / "bin")})
        place.run(self.tool("pipx"), "install", "--quiet", str(self.wheel))
        return used(place, str(home / "bin/retinue"), self.version)

    def upgrade(self) -> str:
        """Upgrade what the release before wrote, and use it."""
        before = self.previous or next(iter(self.tags()), "")
        if not before:
            return "not checked: there is no tag of a release before (--previous names a commit)"
        old = Place(self.folder / "previous")
        old.folder.mkdir(exist_ok=True)
        archive = str(old.folder / "source.tar")
        self.source.run("git", "archive", "--output", archive, before)
        (old.folder / "source").mkdir()
        old.run("tar", "--extract", "--file", archive, "--directory", "source")
        program = installed_by_pip(old, str(old.folder / "source"))
        home = Place(self.folder / "upgraded")
        wrote = home.run(program, "--version").strip()
        home.run(program, "chat", "--plain", "--as", "alice", given="note: tea\n")
        new = str(self.folder / "pip/environment/bin/retinue")
        home.run(new, "migrate")
        found = home.run(new, "chat", "--plain", "--as", "alice", given="search my notes for tea\n")
        if "tea" not in found:
            raise ReleaseError(f"A note that {wrote} stored is gone after the upgrade.")
        home.run(new, "doctor")
        return f"from {wrote}: its note is there, and doctor finds nothing wrong"


def problem_of(changes: str, version: str, tags: list[str]) -> str:
    """Return the problem of the number of a release; empty for none.

    Args:
        changes: CHANGELOG.md.
        version: The version in pyproject.toml.
        tags: The tags of earlier releases.
    """
    headings = re.findall(r"^## (.+)$", changes, re.MULTILINE)
    if f"v{version}" in tags:
        return f"{version} is released already: raise `version` in pyproject.toml."
    unreleased = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL)
    if unreleased and unreleased[1].strip():
        return f"CHANGELOG.md: rename “## Unreleased” to “## {version} - YYYY-MM-DD”, with today."
    named = [each for each in headings if each != "Unreleased"]
    if not named or not re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", named[0]):
        return f"CHANGELOG.md: its newest section must be “## {version} - YYYY-MM-DD”."
    return ""


def environment(place: Place) -> None:
    """Make an environment of Python in a place."""
    place.run(sys.executable, "-m", "venv", "environment")


def installed_by_pip(place: Place, package: str) -> str:
    """Install a package into an environment of a place, and return the path of its program."""
    environment(place)
    place.run("environment/bin/python", "-m", "pip", "install", "--quiet", package)
    return str(place.folder / "environment/bin/retinue")


def used(place: Place, program: str, version: str) -> str:
    """Use an installed program as somebody new, and return the commands that it has.

    Raises:
        ReleaseError: A command fails, or answers something else.
    """
    home = Place(place.folder / "home", place.further)
    if (said := home.run(program, "--version").strip()) != (
        expected := f"retinue {version}, tables {SCHEMA_VERSION}"
    ):
        raise ReleaseError(f"It says “{said}” instead of “{expected}”.")
    commands = commands_in(home.run(program, "--help"))
    for command in commands:
        home.run(program, command, "--help")
    home.run(program, "check")
    chat = (program, "chat", "--plain", "--as", "alice")
    if "I made a note" not in home.run(*chat, given="note: tea\n"):
        raise ReleaseError("The chat did not answer.")
    if '"status": "completed"' not in home.run(
        program, "ask", "--agent", "explore", "--json", "look for tea"
    ):
        raise ReleaseError("The run of an agent was not completed.")
    home.run(program, "doctor")
    return f"{len(commands)} commands, a chat, a run and doctor work"


def commands_in(text: str) -> list[str]:
    """Return the names of the commands in a help text."""
    listed = text.partition("Commands:")[2]
    return re.findall(r"^  ([a-z][a-z-]*) ", listed, re.MULTILINE)


def points(release: Release) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the points of the check-list, each with its check."""
    yield "the commit", release.tree
    yield "the version", release.numbers
    yield "the tools", release.tools
    yield "the packages", release.build
    yield "pip install", release.by_pip
    yield "uv tool install", release.by_uv
    yield "pipx install", release.by_pipx
    yield "upgrade", release.upgrade


def main() -> None:
    """Carry out the check-list, and end with 1 if a point is not met."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("--previous", default="", help="the commit or tag of the release before")
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, check in points(Release(Path(folder), given.previous)):
            try:
                print(f"✓ {name}: {check()}", flush=True)  # noqa: T201
            except ReleaseError as error:
                failed = True
                print(f"✗ {name}: {error}", flush=True)  # noqa: T201
    print("\nBy hand:")  # noqa: T201
    for number, each in enumerate(BY_HAND, 1):
        print(f"{number}. {each}")  # noqa: T201
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
