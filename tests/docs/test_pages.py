"""What both pages name is there: settings, commands, files, links."""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest
import typer
from pydantic.fields import FieldInfo

from bot.__main__ import build
from bot.config.loading import load
from bot.config.model import Config
from bot.config.problems import all_keys
from bot.conversations.command_lines import CommandGroup
from bot.conversations.command_table import COMMANDS
from tests.docs.pages import BOTH, ROOT, Page

WORDY = (
    *BOTH,
    Page("skills/README.md"),
    Page("README.md"),
    Page("docs/README.md"),
    Page("docs/administration.md"),
    Page("docs/operations.md"),
    Page("docs/upgrading.md"),
)
ALL = [
    Page(str(each.relative_to(ROOT)))
    for each in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("skills/*.md")]
]
#: Files that the reader makes.
OF_THE_READER = {
    "deploy/.env",
    "skills/coin.py",
    "skills/coin/settings.py",
    "tests/test_reading.py",
}
FRAGMENTS = [(page, body) for page in BOTH for body in page.fragments("yaml")]

_SETTING = re.compile(r"([a-z_]+(?:\.[a-z_]+)+)(?::.*)?")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_FILE = re.compile(r"(?:bot|db|skills|tests|migrations|bench|deploy|docs|agents)/[\w./-]*")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize(("page", "body"), FRAGMENTS, ids=lambda value: str(value)[:30])
def test_every_piece_of_configuration_is_one(page: Page, body: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(body, encoding="utf-8")
    environ = dict.fromkeys(_VARIABLE.findall(body), "what-the-reader-has")

    assert load(file, environ) != Config(), page.path


@pytest.mark.parametrize("page", BOTH, ids=str)
def test_every_setting_that_is_named_exists(page: Page) -> None:
    known = {".".join(map(str, key)): field for key, field in all_keys(Config)}

    for word in page.code_words:
        match = _SETTING.fullmatch(word)
        if match is None or match[1].split(".")[0] not in Config.model_fields:
            continue
        assert match[1] in known or is_below_a_table(match[1], known) or is_code(match[1]), word


def is_below_a_table(name: str, known: Mapping[str, FieldInfo]) -> bool:
    """Whether it names what a user calls something: `skills.settings.departures`."""
    return any(
        name.startswith(f"{key}.") and "dict" in str(field.annotation)
        for key, field in known.items()
    )


def is_code(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("page", WORDY, ids=str)
def test_every_command_that_is_named_exists(page: Page) -> None:
    named = re.findall(r"python -m bot ((?:[a-z][a-z-]*[ \n]?)+)", page.text)

    assert named or page.path == "skills/README.md"
    for words in named:
        assert is_command(words.split()), words


def is_command(words: list[str]) -> bool:
    """Whether the first words lead to a command; what follows are its arguments."""
    below: object = typer.main.get_command(build())
    for word in words:
        commands = getattr(below, "commands", None)
        if commands is None:
            break
        if word not in commands:
            return False
        below = commands[word]
    return True


@pytest.mark.parametrize("page", BOTH, ids=str)
def test_every_slash_command_that_is_named_exists(page: Page) -> None:
    for name in re.findall(r"/subagents ([a-z]+)", page.text):
        assert COMMANDS.get(CommandGroup.RUNS, name), name


@pytest.mark.parametrize("page", ALL, ids=str)
def test_every_link_leads_somewhere(page: Page) -> None:
    for link in _LINK.findall(page.words):
        path, _, heading = link.partition("#")
        if "://" in link:
            continue
        target = (page.file.parent / path).resolve() if path else page.file
        assert target.exists(), link
        if heading:
            assert heading in headings(target), link


def test_every_file_of_this_repository_that_is_named_exists() -> None:
    # Decisions and the log of changes tell of what was there.
    pages = [each for each in ALL if not re.match("docs/decisions|CHANGELOG", each.path)]
    named = {word for page in pages for word in page.code_words if _FILE.fullmatch(word)}

    assert len(named) > 100
    assert {word for word in named if not (ROOT / word).exists()} == OF_THE_READER


def headings(file: Path) -> set[str]:
    """Return the anchors of a page, as hosts of code make them."""
    found = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", each.lower()) for each in found]
    return {each.replace(" ", "-") for each in plain}
