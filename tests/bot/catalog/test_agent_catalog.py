"""All agents of some folders: what is broken is reported, what changes counts."""

import logging
import os
from pathlib import Path

import pytest

from bot.catalog.agents import AgentCatalog, find
from bot.catalog.files import CHECK_SECONDS
from bot.errors import ConfigError


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
