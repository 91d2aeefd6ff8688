"""One Agent Skill: what the specification wants, and what a hostile folder cannot do."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.plain import clean
from bot.catalog.skill_files import MOST_BYTES, MOST_LISTED, list_files, read_file
from bot.catalog.skills import AgentSkill, read_skill, skill_in
from bot.errors import ConfigError, ToolError
from bot.files.opener import Opener, best_opener, by_walking

HEAD = "name: pdf\ndescription: Reads PDF files. Use for PDFs."
#: Skills are read in two ways, by the system call of Linux and without it.
OPENERS = [best_opener(), by_walking]


@pytest.fixture(params=OPENERS, ids=["best", "walking"])
def opener(request: pytest.FixtureRequest) -> Opener:
    found: Opener = request.param
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "pdf")


@pytest.fixture
def skill(folder: Path, opener: Opener) -> AgentSkill:
    return read_skill(folder, opener).item


def write(folder: Path, head: str = HEAD, body: str = "Do it well.") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\n{head}\n---\n{body}\n")
    return folder


def test_a_skill_is_read_as_the_specification_says(tmp_path: Path, opener: Opener) -> None:
    head = f"""{HEAD}
license: Apache-2.0
compatibility: Needs Python 3.14
metadata:
  author: somebody
  version: "1.0"
allowed-tools: Bash(git add:*) Bash(jq:*) Read"""

    reading = read_skill(write(tmp_path / "pdf", head), opener)

    assert reading.warnings == ()
    assert reading.item == AgentSkill(
        name="pdf",
        description="Reads PDF files. Use for PDFs.",
        body="Do it well.",
        folder=tmp_path / "pdf",
        compatibility="Needs Python 3.14",
        tools=("shell", "file_read"),
    )


def test_tools_may_be_a_list_too(tmp_path: Path) -> None:
    head = {"name": "pdf", "description": "x", "allowed-tools": ["Read", "Bash(git:*)", 7]}

    assert skill_in(tmp_path / "pdf", head, "").item.tools == ("file_read", "shell")


@pytest.mark.parametrize(
    "name",
    [
        "PDF",
        "-pdf",
        "pdf-",
        "pdf--x",
        "p df",
        "../pdf",
        "",
        "x" * 65,
        "pdf\n",
        "é",
        "[1]",
        "12",
        "~",
    ],
)
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str, opener: Opener) -> None:
    folder = write(tmp_path / "pdf", f"name: {name}\ndescription: Works.")
    if name == "pdf\n":
        folder = write(tmp_path / "pdf", 'name: "pdf\\n"\ndescription: Works.')

    with pytest.raises(ConfigError, match=r"^pdf/SKILL\.md: `name` must be up to 64 of a-z"):
        read_skill(folder, opener)


@pytest.mark.parametrize("more", ["", "description:", "description: ' '", "description: [a]"])
def test_without_a_description_it_is_no_skill(tmp_path: Path, more: str, opener: Opener) -> None:
    folder = write(tmp_path / "pdf", f"name: pdf\n{more}")

    with pytest.raises(ConfigError, match="`description` is missing"):
        read_skill(folder, opener)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"Just text.", "must begin with front matter"),
        (b"---\nname: pdf\n", "must begin with front matter"),
        (b"---\n[broken\n---\n", "the front matter is no YAML"),
        (b"---\n- a\n- b\n---\n", "must be `key: value` lines"),
        (b"---\na: &a [x]\nb: *a\n---\n", "aliases"),
        (b"\xff\xfe\x00", "is no UTF-8 text"),
        (b"---\n" + b"x" * 300_000, "is larger than 256 KB"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(
    tmp_path: Path, content: bytes, said: str, opener: Opener
) -> None:
    folder = write(tmp_path / "pdf")
    (folder / "SKILL.md").write_bytes(content)

    with pytest.raises(ConfigError) as told:
        read_skill(folder, opener)

    assert str(told.value).startswith("pdf/SKILL.md")
    assert said in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (f"{HEAD}\nmodel: opus", "`model` is not used"),
        (f"{HEAD}\nmetadata: hello", "`metadata` should be `key: value` lines"),
        (f"{HEAD}\ncompatibility: [a]", "`compatibility` should be text"),
        (f"{HEAD}\ncompatibility: {'x' * 501}", "more than 500 characters"),
        (f"{HEAD}\nallowed-tools: 7", "`allowed-tools` should be names"),
        ("name: csv\ndescription: Works.", "its folder should be called so"),
        (f"name: pdf\ndescription: {'x' * 1025}", "has 1,025 characters, and 1,024 is the most"),
    ],
)
def test_what_is_odd_is_told_and_the_skill_is_there(
    tmp_path: Path, head: str, said: str, opener: Opener
) -> None:
    reading = read_skill(write(tmp_path / "pdf", head), opener)

    (warning,) = reading.warnings
    assert warning.startswith("pdf/SKILL.md: ")
    assert said in warning
    assert len(reading.item.description) <= 1024


def test_a_skill_without_instructions_is_told(tmp_path: Path, opener: Opener) -> None:
    reading = read_skill(write(tmp_path / "pdf", body=""), opener)

    assert "nothing below its front matter" in reading.warnings[0]


@given(
    head=st.dictionaries(
        st.sampled_from(
            ["name", "description", "license", "compatibility", "metadata", "allowed-tools", "x\ny"]
        ),
        st.none()
        | st.booleans()
        | st.integers()
        | st.text()
        | st.lists(st.text() | st.integers())
        | st.dictionaries(st.text(), st.text()),
    ),
    body=st.text(),
    valid=st.booleans(),
)
def test_whatever_a_head_holds_it_is_a_clean_skill_or_a_sentence(
    head: dict[str, object], body: str, *, valid: bool
) -> None:
    if valid:
        head = {**head, "name": "pdf", "description": "Works."}

    try:
        reading = skill_in(Path("/somewhere/pdf"), head, body)
    except ConfigError:
        if valid:
            raise
        return

    texts = (reading.item.description, reading.item.compatibility, *reading.warnings)
    assert all(len(text) <= 1024 and "\n" not in text for text in texts)
    assert all(clean(text) == text for text in (*texts, reading.item.body))


def test_a_skill_file_that_is_a_link_or_no_file_is_not_read(
    tmp_path: Path, folder: Path, opener: Opener
) -> None:
    outside = write(tmp_path / "outside")
    (folder / "SKILL.md").unlink()

    (folder / "SKILL.md").symlink_to(outside / "SKILL.md")
    with pytest.raises(ConfigError, match="it is a link, and links are not followed"):
        read_skill(folder, opener)

    (folder / "SKILL.md").unlink()
    os.mkfifo(folder / "SKILL.md")
    with pytest.raises(ConfigError, match="is no ordinary file"):
        read_skill(folder, opener)

    (folder / "SKILL.md").unlink()
    os.link(outside / "SKILL.md", folder / "SKILL.md")
    with pytest.raises(ConfigError, match="hard links"):
        read_skill(folder, opener)


# -- its files -------------------------------------------------------------------------------------


def test_files_are_read_by_their_path(folder: Path, skill: AgentSkill, opener: Opener) -> None:
    (folder / "references").mkdir()
    (folder / "references" / "forms.md").write_text("Fill\x1b[31m in <all> of it.")
    (folder / "run.py").write_bytes("\ufeffprint('ü')\r\n".encode())

    assert read_file(skill, "references/forms.md", opener) == "Fill in <all> of it."
    assert read_file(skill, "./references//forms.md", opener) == "Fill in <all> of it."
    assert read_file(skill, "run.py", opener) == "print('ü')\n"
    assert list_files(skill, opener) == "references/forms.md, run.py"


def plant(folder: Path, outside: Path) -> None:
    """Put everything into a skill by which its author may want to get out of it."""
    (folder / "references").mkdir()
    (folder / "references" / "forms.md").write_text("Fill in.")
    (folder / "link.md").symlink_to(outside / "secret.md")
    (folder / "relative.md").symlink_to("../outside/secret.md")
    (folder / "up").symlink_to(outside)
    (folder / "root").symlink_to("/")
    (folder / "loop").symlink_to("loop")
    os.link(outside / "secret.md", folder / "hard.md")
    os.mkfifo(folder / "fifo")
    (folder / "broken.md").symlink_to("nowhere")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "~",
        "../outside/secret.md",
        "references/../../outside/secret.md",
        "references/../references/forms.md",
        "..",
        "link.md",
        "relative.md",
        "up/secret.md",
        "up",
        "root/etc/passwd",
        "root/proc/self/environ",
        "loop",
        "hard.md",
        "fifo",
        "broken.md",
        "references",
        ".",
        "references/forms.md/more",
        "nothing.md",
        "references\0/forms.md",
        "referen\u200bces/forms.md",
        "x" * 2_000,
        "a/" * 40,
        "/proc/self/environ",
        "//etc/passwd",
        "..\\outside\\secret.md",
        "%2e%2e/outside/secret.md",
        "file:///etc/passwd",
    ],
)
def test_nothing_outside_and_nothing_that_is_no_file_is_read(
    tmp_path: Path, folder: Path, skill: AgentSkill, opener: Opener, path: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("the-secret")
    plant(folder, outside)

    with pytest.raises(ToolError, match=r"Its files: .*references/forms\.md") as refused:
        read_file(skill, path, opener)

    assert "the-secret" not in str(refused.value)
    assert len(str(refused.value)) < 1_000


@given(
    path=st.text() | st.lists(st.sampled_from(["..", "/", "up", ".", "root", "etc"])).map("/".join)
)
def test_whatever_the_path_it_is_a_file_of_the_skill_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    base = tmp_path_factory.mktemp("skills")
    outside = base / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("the-secret")
    folder = write(base / "pdf")
    plant(folder, outside)
    skill = read_skill(folder, best_opener()).item

    try:
        text = read_file(skill, path, best_opener())
    except ToolError:
        return

    assert text.startswith(("Fill in", "---\nname: pdf"))


def test_a_folder_that_became_a_link_is_not_gone_into(
    tmp_path: Path, folder: Path, skill: AgentSkill, opener: Opener
) -> None:
    outside = write(tmp_path / "outside")
    (outside / "secret.md").write_text("the-secret")
    folder.rename(tmp_path / "away")
    folder.symlink_to(outside)

    with pytest.raises(ToolError, match="Its files: none"):
        read_file(skill, "secret.md", opener)


def test_a_huge_file_is_refused_without_reading_it(
    folder: Path, skill: AgentSkill, opener: Opener
) -> None:
    (folder / "huge.txt").touch()
    os.truncate(folder / "huge.txt", 10**12)

    with pytest.raises(ToolError, match=r"huge\.txt is larger than 1\.0 MB"):
        read_file(skill, "huge.txt", opener)


@pytest.mark.parametrize(
    "content", [b"\x89PNG\r\n\x1a\n\0\0", b"a\0b", b"\xff\xd8\xff", b"%PDF-1.7"]
)
def test_what_is_no_text_is_refused(
    folder: Path, skill: AgentSkill, opener: Opener, content: bytes
) -> None:
    (folder / "logo.png").write_bytes(content)

    with pytest.raises(ToolError, match=r"logo\.png is no text"):
        read_file(skill, "logo.png", opener)


def test_a_file_of_just_the_most_bytes_is_read(
    folder: Path, skill: AgentSkill, opener: Opener
) -> None:
    (folder / "most.txt").write_bytes(b"x" * MOST_BYTES)

    assert len(read_file(skill, "most.txt", opener)) == MOST_BYTES


def test_a_long_list_of_files_is_cut_and_says_so(
    folder: Path, skill: AgentSkill, opener: Opener
) -> None:
    for number in range(MOST_LISTED + 5):
        (folder / f"{number:03}\n.md").touch()

    listing = list_files(skill, opener)

    *named, last = listing.split(", ")
    assert (len(named), last) == (MOST_LISTED, "and more")
    assert "\n" not in listing
