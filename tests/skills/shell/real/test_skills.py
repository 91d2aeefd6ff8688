"""The folders of Agent Skills inside of the sandbox: scripts run, and nothing can be changed."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bot.agent.settings import AgentSkillsSettings
from bot.catalog.skills import SkillCatalog
from bot.config.model import Config
from bot.rights.settings import RolesSettings
from bot.values import RunStatus, utc_now
from skills.shell.checkup import checks
from skills.shell.installing import install, python_version
from skills.shell.recipe import ShownFolders
from skills.shell.settings import ShellSettings
from skills.shell.shell import Sandbox
from skills.shell.skill_copies import SkillCopies, own_folder
from tests.fakes.anthropic_server import Reply
from tests.fakes.calls import context_of
from tests.skills.shell.real.conftest import workspace_of
from tests.skills.shell.wheels import put_wheel
from tests.stories.farm import Cast, Work, farm
from tests.stories.stage import call, calls

SCRIPT = """\
import pathlib, sys
word = (pathlib.Path(__file__).parent.parent / "assets" / "word.txt").read_text()
pathlib.Path("out.txt").write_text(f"{word} {sys.argv[1]}")
print("written:", word)
"""


def put_skill(folder: Path, name: str) -> Path:
    skill = folder / name
    (skill / "scripts").mkdir(parents=True)
    (skill / "assets").mkdir()
    (skill / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: Greets.\n---\n"
        "Run `python3 scripts/greet.py NAME`, or ${CLAUDE_SKILL_DIR}/scripts/greet.sh.\n"
    )
    (skill / "assets" / "word.txt").write_text(f"Hello of {name}")
    (skill / "scripts" / "greet.py").write_text(SCRIPT)
    (skill / "scripts" / "greet.sh").write_text("#!/bin/sh\necho hello from $0\n")
    return skill


@dataclass
class Inside:
    """Runs commands that see the skills `greet` and not `secret`."""

    sandbox: Sandbox
    copies: SkillCopies
    folder: Path

    async def run(self, command: str) -> tuple[int, str]:
        async def usable(_: object) -> frozenset[str]:
            return frozenset({"greet"})

        context = replace(context_of(), usable_skills=usable)
        async with self.copies.shown(context) as skills:
            assert skills is not None
            # The bot, and so the account of a command, owns them unless the bot is root.
            for path in (skills, *skills.rglob("*")):
                path.chmod(0o777)
            shown = ShownFolders(skills=skills)
            workspace = workspace_of(self.folder)
            ended = await self.sandbox.run(command, workspace, seconds=15, shown=shown)
        return ended.code, ended.output.head


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "of-the-owner"
    put_skill(folder, "greet")
    put_skill(folder, "secret")
    return folder


@pytest.fixture
def inside(roomy: Sandbox, source: Path, folder: Path, tmp_path: Path) -> Iterator[Inside]:
    with own_folder(tmp_path / "data") as own:
        yield Inside(roomy, SkillCopies(SkillCatalog([source]), own), folder)


async def test_a_script_finds_its_assets_and_writes_to_the_workspace(inside: Inside) -> None:
    code, text = await inside.run(
        "python3 /skills/greet/scripts/greet.py Ann; /skills/greet/scripts/greet.sh; "
        "cd /skills/greet && cat assets/word.txt"
    )

    assert (code, text.splitlines()) == (
        0,
        [
            "written: Hello of greet",
            "hello from /skills/greet/scripts/greet.sh",
            "Hello of greet",
        ],
    )
    assert (inside.folder / "out.txt").read_text() == "Hello of greet Ann"


@pytest.mark.parametrize(
    "command",
    [
        "echo x >/skills/greet/scripts/greet.py",
        "echo x >/skills/greet/new",
        "rm -r /skills/greet",
        "mv /skills/greet /skills/other",
        "mkdir /skills/other",
        "chmod 777 /skills/greet/scripts/greet.py",
        "chmod 777 /skills",
        "ln -s /etc /skills/greet/etc",
        "touch /skills/greet/SKILL.md",
        "mount -o remount,rw /skills",
        "mount -t tmpfs none /skills",
        "umount /skills",
    ],
)
async def test_a_command_cannot_change_the_folders(inside: Inside, command: str) -> None:
    code, _ = await inside.run(f"{command} 2>&1")
    _, text = await inside.run("cat /skills/greet/scripts/greet.py; ls /skills /skills/greet")

    assert code != 0
    assert text == f"{SCRIPT}/skills:\ngreet\n\n/skills/greet:\nSKILL.md\nassets\nscripts\n"


async def test_skills_that_the_caller_may_not_use_and_places_outside_are_not_there(
    inside: Inside, source: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("of the bot")
    for name, target in {"link": str(outside), "up": "../../../outside", "etc": "/etc"}.items():
        (source / "greet" / name).symlink_to(target)

    _, text = await inside.run(
        "ls /skills /skills/greet; cat /skills/greet/link /skills/greet/up /skills/secret/SKILL.md"
        " /skills/greet/../secret/SKILL.md; cat /proc/self/mountinfo"
    )

    assert "of the bot" not in text
    assert "Hello of secret" not in text
    assert text.startswith("/skills:\ngreet\n\n/skills/greet:\nSKILL.md\nassets\nscripts\n")
    if inside.sandbox.is_overlay:
        assert str(tmp_path) not in text
    assert str(source) not in text


# -- Python packages -------------------------------------------------------------------------------


@dataclass
class WithPackages:
    """Runs commands that see an installed package."""

    sandbox: Sandbox
    environment: Path
    folder: Path

    async def run(self, command: str) -> tuple[int, str]:
        shown = ShownFolders(python=self.environment)
        workspace = workspace_of(self.folder)
        ended = await self.sandbox.run(command, workspace, seconds=15, shown=shown)
        return ended.code, ended.output.head


@pytest.fixture
def packaged(roomy: Sandbox, folder: Path, tmp_path: Path) -> WithPackages:
    put_wheel(tmp_path / "wheels", "hens")
    settings = ShellSettings(folder=str(tmp_path / "of-the-bot"), python_packages=("hens",))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    found = install(settings, roomy.host.python, environ, now=utc_now())
    assert found is not None
    for path in found.environment.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o777)
    return WithPackages(roomy, found.environment, folder)


async def test_python_imports_the_packages_and_their_programs_run(packaged: WithPackages) -> None:
    code, text = await packaged.run(
        "python -c 'import hens; print(hens.VERSION, hens.__file__)'; hens; "
        "python3 -c 'import hens; print(hens.VERSION)'; python -c 'import json, sqlite3'"
    )

    lib = f"/run/python/lib/python{python_version(packaged.sandbox.host.python)}"
    assert (code, text.splitlines()) == (
        0,
        [f"1.0 {lib}/site-packages/hens.py", "hens 1.0", "1.0"],
    )


async def test_a_command_cannot_change_the_packages_or_learn_where_they_are(
    packaged: WithPackages,
) -> None:
    _, text = await packaged.run(
        "rm -r /run/python/lib; echo x >/run/python/bin/hens; ln -sf x /run/bin/python; "
        "grep -r of-the-bot /run/python; cat /proc/self/mountinfo; "
        "python -c 'import urllib.request as u; u.urlopen(\"http://pypi.org\")' 2>&1; hens"
    )

    assert text.endswith("hens 1.0\n")
    assert "Error" in text
    if packaged.sandbox.is_overlay:
        assert "of-the-bot" not in text


async def test_without_packages_there_is_a_python_all_the_same(
    roomy: Sandbox, folder: Path
) -> None:
    ended = await roomy.run("python -c 'print(6 * 7)'", workspace_of(folder), seconds=15)

    assert ended.output.head == "42\n"


async def test_doctor_says_when_the_packages_are_not_as_configured(tmp_path: Path) -> None:
    shell = ShellSettings(folder=str(tmp_path), python_packages=("hens",))

    sandbox, packages = await checks(Config(shell=shell))

    assert sandbox.good
    assert packages.good is False
    assert packages.text == (
        "the Python packages are not as configured: not installed: hens. Run "
        "`python -m bot packages install`."
    )


# -- a story ---------------------------------------------------------------------------------------


def by_the_skill(work: Work) -> Reply:
    """Load the skill, run its script at the path that its text names, and report."""
    match work.results:
        case ():
            return calls(("skill_read", {"name": "greet"}))
        case (text,):
            base = text.partition("Base directory for this skill: ")[2].split(" ")[0]
            assert f"{base}/scripts/greet.sh" in text
            return call("shell", command=f"python3 {base}/scripts/greet.py Bo && ls /skills")
        case (_, ran):
            return Reply(text=f"Done. {ran}")
    raise AssertionError(work.results)


async def test_a_run_works_by_the_script_of_a_skill_and_sees_no_skill_of_other_roles(
    sqlite_url: str, source: Path, tmp_path: Path
) -> None:
    roles = RolesSettings.model_validate(
        {"named": {"user": {"skills": ["greet"]}, "guest": {"skills": ["greet"]}}}
    )
    sections: dict[str, Any] = {
        "shell": ShellSettings(folder=str(tmp_path / "shell")),
        "agent_skills": AgentSkillsSettings(folders=(str(source),)),
        "roles": roles,
    }
    async with farm(sqlite_url, tmp_path, Cast(by_the_skill), **sections) as it:
        run, told = await it.spawn("general", "Greet Bo")

        assert (run.status, run.tool_call_count) == (RunStatus.COMPLETED, 2), told
        assert " ".join(told.split()) == "Done. Exit code 0. written: Hello of greet greet"
        assert (it.folder / "out.txt").read_text() == "Hello of greet Bo"
