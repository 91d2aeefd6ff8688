"""The tool that reads Agent Skills: what it returns, page by page, and its place in prompts."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.catalog.files import CHECK_SECONDS
from bot.catalog.skill_files import MOST_COPIED
from bot.catalog.skills import SkillCatalog
from bot.errors import ToolError
from bot.values import Identity, new_run_id
from skills.agent_skills import HEAD_CHARACTERS, build, paged
from skills.base import Effects
from skills.registry import SkillRegistry
from tests.fakes.calls import Caller, context_of
from tests.fakes.clock import FakeClock

PAGE = 2_000


class Watch:
    """A clock of seconds that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def folders(tmp_path: Path, watch: Watch) -> SkillCatalog:
    put(tmp_path, "pdf", "Read the file.\n\nThen <answer>.", "compatibility: Needs qpdf.")
    (tmp_path / "pdf" / "references").mkdir()
    (tmp_path / "pdf" / "references" / "forms.md").write_text("Fill in all.")
    put(tmp_path, "csv", "Count the commas.", "allowed-tools: Bash(cut:*) Read")
    return SkillCatalog([tmp_path], monotonic=watch)


@pytest.fixture
def reader(folders: SkillCatalog, alice: Identity, clock: FakeClock) -> Caller:
    return Caller(build(folders, page_characters=PAGE), alice, clock)


def put(folder: Path, name: str, body: str, more: str = "") -> None:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: Handles {name}.\n{more}\n---\n{body}\n")


async def test_a_skill_is_returned_with_its_files_and_what_it_needs(reader: Caller) -> None:
    assert await reader.call("skill_read", name="pdf") == (
        "The skill pdf:\n\n"
        "You have no tool `shell`: the files of this skill can be read, not run.\n\n"
        "Read the file.\n\nThen <answer>.\n\n"
        "Files of this skill (skill_read with their path): references/forms.md.\n"
        "It needs: Needs qpdf."
    )
    assert await reader.call("skill_read", name=" csv ") == (
        "The skill csv:\n\n"
        "Count the commas.\n\n"
        "Files of this skill (skill_read with their path): none.\n"
        "It was written for the tools shell, file_read; you may lack some."
    )


async def test_a_caller_with_a_shell_learns_where_commands_see_the_folder(
    folders: SkillCatalog, tmp_path: Path
) -> None:
    (skill_read,) = build(folders, page_characters=PAGE).tools
    context = context_of(tools=frozenset({"shell", "skill_read"}))
    told = await skill_read.run(context, {"name": "pdf"})
    without_files = await skill_read.run(context, {"name": "csv"})
    for number in range(MOST_COPIED):
        (tmp_path / "pdf" / str(number)).touch()
    too_large = await skill_read.run(context, {"name": "pdf"})

    assert told.startswith(
        "The skill pdf:\n\n"
        "Base directory for this skill: /skills/pdf (for the tool `shell`; read-only). Paths below "
        "start there: `python scripts/x.py` is `python /skills/pdf/scripts/x.py`. Write files to "
        "/workspace.\n\nRead the file."
    )
    assert without_files.startswith("The skill csv:\n\nCount the commas.")
    assert "The tool `shell` does not see the files of this skill. The folder of" in too_large


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("python ${CLAUDE_SKILL_DIR}/scripts/x.py", "python /skills/tar/scripts/x.py"),
        ('cd "$CLAUDE_SKILL_DIR" && ls', 'cd "/skills/tar" && ls'),
        ("{baseDir}/scripts/x.sh", "/skills/tar/scripts/x.sh"),
        ("${CLAUDE_PLUGIN_ROOT}/skills/pdf/x.py", "/skills/pdf/x.py"),
        ("echo $CLAUDE_SKILL_DIRECTORY ${HOME}", "echo $CLAUDE_SKILL_DIRECTORY ${HOME}"),
    ],
)
async def test_variables_for_the_folder_of_a_skill_are_its_path_for_commands(
    tmp_path: Path, alice: Identity, clock: FakeClock, written: str, read: str
) -> None:
    put(tmp_path, "tar", written)
    reader = Caller(build(SkillCatalog([tmp_path]), page_characters=PAGE), alice, clock)

    assert f"\n\n{read}\n\n" in await reader.call("skill_read", name="tar")


async def test_a_file_is_returned_by_the_path_that_commands_see(reader: Caller) -> None:
    told = await reader.call("skill_read", name="pdf", path="/skills/pdf/references/forms.md")

    assert told.endswith("Fill in all.")


async def test_a_file_of_a_skill_is_returned(reader: Caller) -> None:
    told = await reader.call("skill_read", name="pdf", path="references/forms.md")

    assert told == "references/forms.md of the skill pdf:\n\nFill in all."


async def test_without_a_name_all_skills_are_listed_and_with_a_wrong_one_too(
    reader: Caller,
) -> None:
    everything = "All skills:\n\n- csv: Handles csv.\n- pdf: Handles pdf."

    assert await reader.call("skill_read") == everything
    with pytest.raises(ToolError, match=r"^There is no skill 'docx'\. All skills:") as refused:
        await reader.call("skill_read", name="docx")
    assert str(refused.value).endswith(everything)


@pytest.mark.parametrize("name", ["../pdf", "/etc", "pdf/..", "PDF", "pdf\0", "x" * 5_000])
async def test_a_name_is_no_path(reader: Caller, name: str) -> None:
    with pytest.raises(ToolError, match="There is no skill") as refused:
        await reader.call("skill_read", name=name)

    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../csv/SKILL.md", "out", "fifo", "huge", "binary"]
)
async def test_what_is_no_text_of_the_skill_is_refused_with_a_sentence(
    reader: Caller, tmp_path: Path, path: str
) -> None:
    folder = tmp_path / "pdf"
    (folder / "out").symlink_to("/etc/passwd")
    os.mkfifo(folder / "fifo")
    (folder / "huge").touch()
    os.truncate(folder / "huge", 10**11)
    (folder / "binary").write_bytes(b"\x7fELF\0\0")

    with pytest.raises(ToolError, match=r"no file|larger than|no text"):
        await reader.call("skill_read", name="pdf", path=path)


async def test_a_long_file_is_read_whole_by_going_on_as_it_is_said(
    reader: Caller, tmp_path: Path
) -> None:
    text = "".join(f"line {number} <&>\n" for number in range(2_000))
    (tmp_path / "pdf" / "long.md").write_text(text)

    pages, offset = [], 1
    while offset:
        told = await reader.call("skill_read", name="pdf", path="long.md", offset=offset)
        head, _, part = told.partition("\n\n")
        assert len(told) <= PAGE
        pages.append(part)
        offset = int(head.rpartition("offset=")[2].rstrip(".")) if "offset=" in head else 0

    assert "".join(pages) == text
    assert all(page.endswith("\n") for page in pages)
    with pytest.raises(ToolError, match=r"it has 26,890 characters\. Take a smaller offset"):
        await reader.call("skill_read", name="pdf", path="long.md", offset=99_999)


@given(text=st.text(min_size=1), page=st.integers(1, 50))
def test_pages_together_are_the_text(text: str, page: int) -> None:
    parts, offset = [], 1
    while offset <= len(text):
        part = paged("It", text, offset, page).partition("\n\n")[2]
        assert 1 <= len(part) <= page
        parts.append(part)
        offset += len(part)

    assert "".join(parts) == text


async def test_an_empty_file_is_told(reader: Caller, tmp_path: Path) -> None:
    (tmp_path / "pdf" / "empty.md").touch()

    told = await reader.call("skill_read", name="pdf", path="empty.md")

    assert told == "empty.md of the skill pdf: nothing."


async def test_the_guide_and_the_tool_know_what_has_changed(
    folders: SkillCatalog, reader: Caller, tmp_path: Path, watch: Watch
) -> None:
    skill = build(folders, page_characters=PAGE)
    before = skill.guide_now

    put(tmp_path, "zip", "Unpack it.")
    watch.now += CHECK_SECONDS

    assert "- zip: Handles zip." not in before
    assert "- zip: Handles zip." in skill.guide_now
    assert "Unpack it." in await reader.call("skill_read", name="zip")


def test_subagents_have_it_and_a_call_may_be_made_again(folders: SkillCatalog) -> None:
    registry = SkillRegistry([build(folders, page_characters=PAGE)])

    (found,) = registry.tools_for(is_subagent=True)
    assert found.name == "skill_read"
    assert found.effects is Effects.NONE


async def test_a_run_reads_skills_as_the_main_agent_does(
    folders: SkillCatalog, alice: Identity, clock: FakeClock
) -> None:
    run = Caller(build(folders, page_characters=PAGE), alice, clock, new_run_id())

    assert "Count the commas." in await run.call("skill_read", name="csv")


def test_the_line_above_a_page_has_room_within_what_a_model_is_shown() -> None:
    what = f"{'p' * 200} of the skill {'s' * 64}"

    assert len(paged(what, "x" * 10_000_000, 9_999_000, 1).partition("\n\n")[0]) < HEAD_CHARACTERS
