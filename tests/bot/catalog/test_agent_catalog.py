"""All agents of some folders: what is broken is reported, what changes counts."""

import logging
import os
from pathlib import Path

import pytest

from bot.agent.settings import AgentsSettings
from bot.catalog import files
from bot.catalog.agents import AgentCatalog, check_name, find
from bot.catalog.files import CHECK_SECONDS, FolderCount
from bot.errors import BadRequestError, ConfigError


class Watch:
    """A clock of seconds that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def agent(folder: Path, name: str, text: str = "You work.", *, head: str = "") -> Path:
    path = folder / f"{name}.md"
    path.write_text(f"---\nname: {name}\ndescription: Works.\n{head}---\n{text}\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    agent(tmp_path, "general")
    return tmp_path


def test_the_first_folder_needs_a_general_agent_that_can_be_used(tmp_path: Path) -> None:
    agent(tmp_path, "explore")
    (tmp_path / "general.md").write_text("no front matter")

    with pytest.raises(ConfigError, match=r"has no agent `general`.*must begin with front matter"):
        AgentCatalog([tmp_path])


def test_a_broken_file_is_reported_and_the_others_are_there(folder: Path) -> None:
    agent(folder, "explore")
    (folder / "broken.md").write_text("---\nname: broken\n---\n")
    (folder / "binary.md").write_bytes(b"\xff\xfe\x00")
    (folder / "README.md").write_text("Not an agent.")

    catalog = AgentCatalog([folder])
    assert set(catalog.by_name) == {"general", "explore"}
    assert catalog.problems == (
        "binary.md is no UTF-8 text.",
        "broken.md: `description` is missing in the front matter.",
    )


def test_a_folder_that_is_not_there_is_reported(folder: Path) -> None:
    assert AgentCatalog([folder, folder / "none"]).problems == (
        f"The folder {folder / 'none'} of agents is not there: "
        "make it, or change `agents.folders`.",
    )


def test_of_two_files_with_one_name_the_first_counts_and_the_other_is_reported(
    folder: Path,
) -> None:
    agent(folder, "explore", "You are the first.")
    (folder / "other.md").write_text("---\nname: explore\ndescription: Too.\n---\nSecond.\n")

    catalog = AgentCatalog([folder])
    assert catalog.by_name["explore"].prompt == "You are the first."
    assert catalog.problems == ("other.md: explore.md has an agent `explore` already; rename it.",)


def test_an_agent_of_a_later_folder_takes_the_place_of_one_with_its_name(
    folder: Path, tmp_path: Path
) -> None:
    later = tmp_path / "later"
    later.mkdir()
    agent(later, "general", "You are ours.")

    catalog = AgentCatalog([folder, later])
    assert catalog.by_name["general"].prompt == "You are ours."
    assert catalog.problems == ()


def test_tools_that_are_not_there_are_left_out_and_reported(folder: Path) -> None:
    agent(folder, "explore", head="tools: [Read, Teleport]\ndisallowedTools: [Fly]\n")
    catalog = AgentCatalog([folder])

    catalog.check_tools(lambda name: name == "file_read")

    assert catalog.by_name["explore"].tools == ("file_read",)
    assert catalog.by_name["explore"].disallowed == ()
    assert catalog.problems == (
        "explore.md: there is no tool `Teleport` here.",
        "explore.md: there is no tool `Fly` here, so nothing is taken away.",
    )


def test_what_is_taken_away_stays_so_beside_a_name_that_is_not_there(folder: Path) -> None:
    agent(folder, "explore", head="disallowedTools: Fly, Read\n")
    catalog = AgentCatalog([folder])

    catalog.check_tools(lambda name: name == "file_read")

    assert (catalog.by_name["explore"].tools, catalog.by_name["explore"].disallowed) == (
        None,
        ("file_read",),
    )


def test_what_changes_counts_from_then_on_and_a_broken_change_changes_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="bot")
    watch = Watch()
    path = agent(folder, "explore", "Before.")
    catalog = AgentCatalog([folder], monotonic=watch)

    agent(folder, "explore", "After the change.")
    agent(folder, "new")
    assert find(catalog, "explore")[0].prompt == "Before."
    watch.now += CHECK_SECONDS
    assert find(catalog, "explore")[0].prompt == "After the change."
    assert find(catalog, "new")[1]

    path.write_text("broken now")
    watch.now += CHECK_SECONDS
    assert find(catalog, "explore")[0].prompt == "After the change."
    assert "explore.md must begin with front matter" in caplog.text

    path.unlink()
    watch.now += CHECK_SECONDS
    assert find(catalog, "explore") == (catalog.by_name["general"], False)


def test_a_file_without_end_is_not_read_to_its_end(folder: Path) -> None:
    path = agent(folder, "huge")
    os.truncate(path, 10**9)

    assert AgentCatalog([folder]).problems == ("huge.md is larger than 256 KB.",)


# -- collections: folders with subfolders ----------------------------------------------------------


def test_agents_in_subfolders_are_read_and_other_documents_are_named_in_one_sentence(
    folder: Path,
) -> None:
    for place in ("plugins/a", "plugins/b/agents", ".git", "node_modules", "skills/pdf"):
        (folder / place).mkdir(parents=True)
    agent(folder / "plugins/a", "tester")
    agent(folder / "plugins/b/agents", "writer", head="tools: 5\n")
    for hidden in (".git", "node_modules", "skills/pdf"):
        agent(folder / hidden, "hidden")
    (folder / "skills/pdf/SKILL.md").write_text("---\nname: pdf\ndescription: x\n---\n")
    (folder / "plugins/a/notes.md").write_text("Notes.")
    (folder / "plugins/a/command.md").write_text("---\ndescription: A command.\n---\nDo it.\n")
    (folder / "CLAUDE.md").write_text("About this collection.")
    (folder / "plugins/a/README.md").write_text("Not an agent.")

    catalog = AgentCatalog([folder])

    assert set(catalog.by_name) == {"general", "tester"}
    assert catalog.problems == (
        "plugins/b/agents/writer.md: `tools` must be a list of names, `[]` for none.",
        "CLAUDE.md, plugins/a/command.md and plugins/a/notes.md: without a `name` in front matter "
        "a file is not an agent, and is left out.",
    )
    assert catalog.counts == {folder: FolderCount(files=3, loaded=2)}


def test_the_same_agent_in_two_subfolders_is_one_and_a_different_one_is_reported(
    folder: Path,
) -> None:
    for name, text in (("a", "First."), ("b", "First."), ("c", "Third.")):
        (folder / name).mkdir()
        agent(folder / name, "tester", text)

    catalog = AgentCatalog([folder])

    assert catalog.by_name["tester"].prompt == "First."
    assert catalog.problems == (
        "c/tester.md: a/tester.md has an agent `tester` already; rename it.",
    )
    assert catalog.counts[folder] == FolderCount(files=4, loaded=3)


def test_an_agent_in_a_subfolder_that_breaks_stays_in_use_and_is_reported(folder: Path) -> None:
    watch = Watch()
    (folder / "team").mkdir()
    path = agent(folder / "team", "tester", "Before.")
    catalog = AgentCatalog([folder], monotonic=watch)

    path.write_text("")
    watch.now += CHECK_SECONDS

    assert catalog.by_name["tester"].prompt == "Before."
    assert catalog.problems == (
        "team/tester.md must begin with front matter between two lines `---`.",
    )


def test_a_folder_with_files_but_without_agents_is_reported(folder: Path, tmp_path: Path) -> None:
    empty, other = tmp_path / "empty", tmp_path / "other"
    for each in (empty, other):
        each.mkdir()
    (other / "agents.json").write_text("{}")

    assert AgentCatalog([folder, empty, other]).problems == (
        f"{other} has no agents: an agent is a file `*.md`, here or in a subfolder. Change "
        "`agents.folders`.",
    )


def test_links_to_folders_are_not_followed_and_reported(folder: Path) -> None:
    elsewhere = folder.parent / f"{folder.name}-elsewhere"
    elsewhere.mkdir()
    agent(elsewhere, "tester")
    (folder / "linked").symlink_to(elsewhere)

    catalog = AgentCatalog([folder])

    assert set(catalog.by_name) == {"general"}
    assert catalog.problems == (
        f"{folder} has links to folders, which are not followed (linked): name the folders that "
        "they lead to in `agents.folders`.",
    )


def test_a_folder_with_too_many_entries_is_cut_and_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_ENTRIES", 3)
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    for name in ("one", "two"):
        agent(folder / "a", name)
        agent(folder / "b", f"{name}-more")

    catalog = AgentCatalog([folder])

    assert set(catalog.by_name) == {"general", "one", "two"}
    assert catalog.problems[0].startswith(f"{folder} has more than 3 entries")


def test_the_home_folder_may_be_written_as_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine").mkdir()
    agent(tmp_path / "mine", "tester")
    settings = AgentsSettings(folders=("~/mine", "~nobody-of-this-name/mine"))

    catalog = AgentCatalog.of_settings(lambda: settings)

    assert "tester" in catalog.by_name
    assert catalog.problems == (
        "The folder ~nobody-of-this-name/mine of agents is not there: make it, or change "
        "`agents.folders`.",
    )


@pytest.mark.parametrize(
    ("typed", "advice"),
    [("tster", "Did you mean `tester`? "), ("Explain", "")],
)
def test_a_mistyped_name_is_refused_with_similar_names(
    folder: Path, typed: str, advice: str
) -> None:
    agent(folder, "tester")
    catalog = AgentCatalog([folder])

    with pytest.raises(BadRequestError) as refused:
        check_name(catalog, typed)

    assert str(refused.value).startswith(
        f"There is no agent “{typed}”. {advice}Nothing was started."
    )
    for known in ("", "tester", " Tester "):
        check_name(catalog, known)
