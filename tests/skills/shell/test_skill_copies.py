"""Copies of the folders of skills: what is in them, when they are made anew, and when they go."""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bot.catalog import skill_files
from bot.catalog.files import CHECK_SECONDS
from bot.catalog.skills import SkillCatalog
from bot.disk import DiskReserve, DiskSettings
from bot.errors import ToolError
from skills.shell.skill_copies import MOST_SETS, SkillCopies, own_folder
from tests.fakes.calls import context_of
from tests.skills.test_agent_skills import Watch, put


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    folder.mkdir()
    put(folder, "pdf", "Run `python scripts/fill.py`.")
    (folder / "pdf" / "scripts").mkdir()
    (folder / "pdf" / "scripts" / "fill.py").write_text("print('filled')")
    put(folder, "csv", "Count the commas.")
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    with own_folder(tmp_path / "data") as folder:
        yield folder


@pytest.fixture
def copies(source: Path, own: Path, watch: Watch) -> SkillCopies:
    return SkillCopies(SkillCatalog([source], monotonic=watch), own, monotonic=watch)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a thread of the copies has done its work."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - it is the disk that changes
            await asyncio.sleep(0.01)


@asynccontextmanager
async def seen(copies: SkillCopies, *names: str) -> AsyncIterator[Path]:
    """Look at the copies as a command of a caller with these skills does."""

    async def usable(known: Iterable[str]) -> frozenset[str]:
        return frozenset(names) & frozenset(known)

    async with copies.shown(replace(context_of(), usable_skills=usable)) as folder:
        assert folder is not None
        yield folder


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def paths(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


async def test_a_caller_sees_the_folders_of_its_skills_and_no_others(copies: SkillCopies) -> None:
    async with seen(copies, "pdf") as folder, seen(copies, "csv", "pdf") as both:
        assert paths(folder) == {"pdf/SKILL.md", "pdf/scripts/fill.py"}
        assert paths(both) == {"csv/SKILL.md", "pdf/SKILL.md", "pdf/scripts/fill.py"}


async def test_a_caller_without_skills_sees_no_folder(copies: SkillCopies) -> None:
    async def nothing(_: Iterable[str]) -> frozenset[str]:
        return frozenset()

    async with copies.shown(replace(context_of(), usable_skills=nothing)) as folder:
        assert folder is None


async def test_other_accounts_can_read_and_execute_whatever_the_modes_of_the_author_were(
    copies: SkillCopies, source: Path
) -> None:
    (source / "pdf" / "scripts" / "fill.py").chmod(0o600)
    (source / "pdf" / "scripts").chmod(0o700)
    before = os.umask(0o077)
    try:
        async with seen(copies, "pdf") as folder:
            modes = {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
    finally:
        os.umask(before)

    assert modes == {0o755}


async def test_only_ordinary_files_and_links_that_stay_inside_are_copied(
    copies: SkillCopies, source: Path, tmp_path: Path
) -> None:
    pdf, secret = source / "pdf", tmp_path / "secret"
    secret.write_text("of the bot")
    os.link(secret, pdf / "hard")
    os.mkfifo(pdf / "fifo")
    (pdf / ".git").mkdir()
    (pdf / ".git" / "config").write_text("url = https://token@git.example")
    links = {
        "absolute": str(secret),
        "up": "../../secret",
        "sibling": "../csv/SKILL.md",
        "scripts/far": "../../csv/SKILL.md",
        "here": ".",
        "through": "here/here/../../secret",
        "scripts/near": "../SKILL.md",
        "script": "scripts/fill.py",
    }
    for name, target in links.items():
        (pdf / name).symlink_to(target)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(pdf / "socket"))

        async with seen(copies, "pdf") as folder:
            found = {str(path.relative_to(folder / "pdf")) for path in folder.rglob("pdf/*")}
            found |= {f"scripts/{path.name}" for path in (folder / "pdf/scripts").iterdir()}
            near = (folder / "pdf/scripts/near").read_text()

    assert found == {
        *("SKILL.md", "scripts", "here", "script", "scripts/fill.py", "scripts/near"),
    }
    assert "name: pdf" in near


async def test_a_folder_with_a_hostile_name_is_seen_under_the_name_of_its_skill(
    copies: SkillCopies, source: Path, watch: Watch
) -> None:
    hostile = source / "--ro-bind $(touch x);\n.."
    (source / "pdf").rename(hostile)
    (hostile / "-rf $HOME\n").write_text("odd")
    watch.now += CHECK_SECONDS

    async with seen(copies, "pdf") as folder:
        assert names_in(folder) == ["pdf"]
        assert "pdf/-rf $HOME\n" in paths(folder)


async def test_a_changed_file_is_seen_by_the_next_command_and_not_by_one_at_work(
    copies: SkillCopies, source: Path, own: Path, watch: Watch
) -> None:
    async with seen(copies, "pdf") as before:
        (source / "pdf" / "scripts" / "fill.py").write_text("print('better')")
        watch.now += CHECK_SECONDS
        async with seen(copies, "pdf") as after:
            assert (before / "pdf/scripts/fill.py").read_text() == "print('filled')"
            assert (after / "pdf/scripts/fill.py").read_text() == "print('better')"

    assert names_in(own) == [after.name]


async def test_an_unchanged_folder_is_copied_once(
    copies: SkillCopies, own: Path, watch: Watch
) -> None:
    found = set()
    for _ in range(3):
        async with seen(copies, "pdf") as folder:
            found.add(folder)
        watch.now += 10 * CHECK_SECONDS

    assert [path.name for path in found] == names_in(own)


async def test_the_copies_of_sets_that_were_not_used_for_long_are_removed(
    source: Path, own: Path
) -> None:
    names = [f"s{number}" for number in range(MOST_SETS + 3)]
    for name in names:
        put(source, name, "Do it.")
    copies = SkillCopies(SkillCatalog([source]), own)

    async with seen(copies, names[0]) as first:
        for name in names[1:]:
            async with seen(copies, name):
                pass
        assert first.exists()
        assert len(names_in(own)) <= MOST_SETS + 1


@pytest.mark.parametrize(
    ("limit", "value"), [("MOST_COPIED", 3), ("MOST_COPIED_BYTES", 100), ("DEEPEST_COPIED", 1)]
)
async def test_a_folder_that_is_too_large_is_left_out_and_the_others_are_seen(
    copies: SkillCopies,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    limit: str,
    value: int,
) -> None:
    (source / "pdf" / "scripts" / "large").write_text("x" * 1_000)
    (source / "pdf" / "scripts" / "deep").mkdir()
    monkeypatch.setattr(skill_files, limit, value)

    async with seen(copies, "csv", "pdf") as folder:
        assert names_in(folder) == ["csv"]
    assert "Commands do not see it. The folder of the skill pdf has" in caplog.text


async def test_without_room_on_the_disk_nothing_is_copied(source: Path, own: Path) -> None:
    reserve = DiskReserve(lambda: DiskSettings(reserve_bytes=10**18, reserve_percent=100), (own,))
    copies = SkillCopies(SkillCatalog([source]), own, reserve=reserve)

    with pytest.raises(ToolError, match="nearly full"):
        async with seen(copies, "pdf"):
            pass

    assert names_in(own) == []


async def test_what_cannot_be_written_is_a_sentence(copies: SkillCopies, own: Path) -> None:
    os.rmdir(own)  # noqa: PTH106

    with pytest.raises(ToolError, match=r"Nothing was run: .*\(No such file or directory\)"):
        async with seen(copies, "pdf"):
            pass


async def test_the_copy_of_a_cancelled_caller_is_free(
    copies: SkillCopies, source: Path, own: Path, watch: Watch
) -> None:
    async def look() -> None:
        async with seen(copies, "pdf"):
            raise AssertionError

    async with asyncio.TaskGroup() as group:
        task = group.create_task(look())
        await asyncio.sleep(0)
        task.cancel()
    await until(lambda: bool(paths(own)))
    (source / "pdf" / "new").touch()
    watch.now += CHECK_SECONDS
    async with seen(copies, "pdf") as folder:
        await until(lambda: names_in(own) == [folder.name])


def test_a_process_removes_its_folder_and_those_of_killed_ones(tmp_path: Path) -> None:
    left = tmp_path / "left"
    (left / "1").mkdir(parents=True)

    with own_folder(tmp_path) as first:
        assert not left.exists()
        with own_folder(tmp_path) as second:
            assert {first, second} == set(tmp_path.iterdir())
        assert first.exists()

    assert list(tmp_path.iterdir()) == []
