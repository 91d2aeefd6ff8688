"""The map in CONTRIBUTING.md names what exists; the way of a message has 15 stations at most."""

import re

import pytest

from tests.docs.pages import ROOT, Page
from tests.house import INSIDE

MAP = Page("CONTRIBUTING.md")
PATHS = sorted(
    {word for word in MAP.code_words if re.fullmatch(r"(bot|db|skills|tests)/\S*", word)}
)
METHODS = re.findall(r"`(\w+)\.(\w+)` \(`([\w/]+\.py)`\)", MAP.text)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_on_the_map_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("kind", "method", "path"), METHODS)
def test_a_method_on_the_map_is_in_its_file(kind: str, method: str, path: str) -> None:
    text = (ROOT / path).read_text("utf-8")

    assert f"class {kind}" in text
    assert re.search(rf"def {method}\(", text)


@pytest.mark.parametrize(
    ("path", "heading"),
    [("docs/platforms.md", "For full equality"), ("docs/models.md", "Add a provider")],
)
def test_a_place_for_a_new_adapter_is_in_its_file(path: str, heading: str) -> None:
    section = Page(path).text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [row.strip("|").split("|")[-1] for row in section.splitlines() if row.startswith("| ")]
    seen = 0
    for cell in cells:
        names: list[str] = []
        for word in re.findall(r"`([^`]+)`", cell):
            if not (ROOT / word).exists():
                names.append(word)
            elif (ROOT / word).is_file():
                text = (ROOT / word).read_text("utf-8")
                assert [name for name in names if name.strip("…").split(".")[-1] not in text] == []
                seen += len(names)
                names = []

    assert seen >= 5


def test_the_way_of_a_message_has_fifteen_stations_at_most() -> None:
    way = MAP.text.partition("### The way of one message")[2].partition("\n## ")[0]
    stations = re.findall(r"^(\d+)\. ", way, re.MULTILINE)

    assert 10 <= len(stations) <= 15
    assert len(METHODS) >= 7


def test_a_class_on_the_map_exists() -> None:
    named = {word.partition(".")[0] for word in MAP.code_words}
    classes = {word for word in named if re.fullmatch(r"(?:[A-Z][a-z]+)+", word)}
    inside = (file for top in INSIDE for file in (ROOT / top).rglob("*.py"))
    found = {
        name
        for file in inside
        for name in re.findall(r"^class (\w+)", file.read_text("utf-8"), re.MULTILINE)
    }

    assert len(classes) >= 10
    assert classes <= found
