"""docs/skills.md tells the truth."""

import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import chdir
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
import yaml

from bot.catalog import skill_files, skills
from bot.catalog.skills import AgentSkill, SkillCatalog, read_skill
from bot.errors import ConfigError, ToolError
from bot.net.settings import FetchSettings
from bot.values import Identity, Json
from skills.base import Tool, ToolContext, ToolOptions
from skills.loading import GROUP, Loaded, load
from skills.mcp.settings import McpSettings
from skills.mcp.tools import name_for as mcp_name
from skills.rest.operations import by_hand
from skills.rest.operations import name_for as rest_name
from skills.rest.settings import RestSettings
from skills.services import SkillServices
from skills.settings import OwnSkillsSettings
from skills.web.settings import ProviderName
from tests.docs.pages import ROOT, SKILLS, Page, code_in
from tests.fakes.calls import Caller
from tests.fakes.clock import FakeClock
from tests.fakes.web import FakeWeb, response

DEPARTURES = SKILLS.saved_as("my-python-skills/departures.py", "python")
READING = SKILLS.saved_as("my-python-skills/reading.py", "python")
TEST = SKILLS.saved_as("tests/test_reading.py", "python")
VOICE = SKILLS.saved_as("my-skills/brand-voice/SKILL.md", "markdown")

Loads = Callable[..., Loaded]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Where the reader of the page starts the bot, all files saved as it says."""
    python = tmp_path / "my-python-skills"
    python.mkdir(mode=0o755)
    (python / "departures.py").write_text(DEPARTURES, encoding="utf-8")
    (python / "reading.py").write_text(READING, encoding="utf-8")
    return tmp_path


@pytest.fixture
def loads(here: Path) -> Loads:
    """Loads the skills of the page."""

    def loaded(**departures: str) -> Loaded:
        given: dict[str, Json] = {"departures": dict(departures)} if departures else {}
        settings = OwnSkillsSettings(
            folders=(str(here / "my-python-skills"),),
            entry_points=False,
            settings=given,
            data_folder=str(here / "data"),
        )
        return load(settings, FetchSettings(seconds=5))

    return loaded


@pytest.fixture
async def service() -> AsyncIterator[FakeWeb]:
    async with FakeWeb().open() as web:
        yield web


# -- Agent Skills ----------------------------------------------------------------------------------


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "SKILL.md").write_text(text, encoding="utf-8")
    return path


def test_the_example_of_an_agent_skill_is_one(tmp_path: Path) -> None:
    folder = put(tmp_path, "brand-voice", VOICE)
    (folder / "references").mkdir()
    (folder / "references" / "products.md").write_text("Tea: 3 €")
    found = SkillCatalog([tmp_path])

    skill = found.by_name["brand-voice"]

    assert found.problems == ()
    assert skill_files.read_file(skill, "references/products.md", found.opener) == "Tea: 3 €"
    assert "brand-voice: How our company writes." in found.catalog()


def test_what_is_said_of_a_broken_skill_is_said(tmp_path: Path) -> None:
    said = SKILLS.fragment("text", "SKILL.md").splitlines()
    bad_name = put(tmp_path, "Brand Voice", VOICE.replace("brand-voice", "Brand Voice"))
    bare = "---\nname: brand-voice\n---\nText.\n"
    odd = "---\nname: voice\ndescription: Some.\nmood: good\n---\n"

    found = [
        broken(bad_name),
        broken(put(tmp_path, "brand-voice", bare)),
        *read_skill(put(tmp_path, "brand-voice", odd), SkillCatalog([]).opener).warnings,
    ]

    assert found == said


def broken(folder: Path) -> str:
    with pytest.raises(ConfigError) as error:
        read_skill(folder, SkillCatalog([]).opener)
    return str(error.value)


def test_the_figures_of_agent_skills_are_those_of_the_code() -> None:
    text = " ".join(SKILLS.prose.split())

    assert f"up to {skill_files.MOST_BYTES:,} bytes" in text
    assert f"up to {skills.CATALOG_CHARACTERS:,} characters of a prompt" in text
    assert f"names up to {skills.BODY_CHARACTERS:,}." in text
    hint = AgentSkill(name="a", description="b", body="c", folder=ROOT, tools=("shell",))
    assert hint.tools == ("shell",)


# -- Python skills ---------------------------------------------------------------------------------


async def test_the_skill_that_asks_a_service_does(
    loads: Loads, service: FakeWeb, alice: Identity, clock: FakeClock
) -> None:
    trains = b'{"trains": [{"time": "10:04", "to": "Nice <script>"}]}'
    service.pages["127.0.0.1/v1/departures"] = response(trains, kind="application/json")
    loaded = loads(address=f"{service.url}/v1", api_key="a-key-of-mine")
    departures = Caller(loaded.skills[0].skill, alice, clock)

    told = await departures.call("departures_next", station="Lyon Part-Dieu")

    assert told.startswith("10:04 to Nice &lt;script&gt;")
    (asked,) = service.asked
    assert asked.target == "/v1/departures?station=Lyon+Part-Dieu&most=5"
    assert asked.headers["authorization"] == "Bearer a-key-of-mine"
    service.pages.clear()
    with pytest.raises(ToolError, match="There is no station 'Atlantis'"):
        await departures.call("departures_next", station="Atlantis")


async def test_the_skill_that_keeps_something_does(
    loads: Loads, alice: Identity, bob: Identity, clock: FakeClock
) -> None:
    (reading,) = [each.skill for each in loads().skills]
    hers, his = Caller(reading, alice, clock), Caller(reading, bob, clock)

    await hers.call("reading_add", title="Emma")
    await hers.call("reading_add", title="Emma")

    assert await hers.call("reading_show") == "Emma"
    assert await his.call("reading_show") == "The list is empty."
    await hers.call("reading_clear")
    assert await hers.call("reading_show") == "The list is empty."


def test_the_test_of_the_page_passes(here: Path) -> None:
    module = ModuleType("test_reading")
    exec(compile(TEST, "test_reading.py", "exec"), module.__dict__)

    with chdir(here):
        module.test_everyone_has_a_list_of_their_own(here / "data")


def test_what_is_said_of_a_broken_file_is_said(here: Path, loads: Loads) -> None:
    wrong = READING.replace("= services.store", "= service.store")
    (here / "my-python-skills" / "reading.py").write_text(wrong, encoding="utf-8")

    problems = [problem.removeprefix(f"{here}/") for problem in loads().problems]

    assert problems == SKILLS.fragment("text", "is left out").splitlines()


def test_a_confirmation_without_main_agent_only_keeps_the_bot_from_starting(
    here: Path, loads: Loads
) -> None:
    wrong = READING.replace("main_agent_only=True, needs_conf", "needs_conf")
    (here / "my-python-skills" / "reading.py").write_text(wrong, encoding="utf-8")

    with pytest.raises(ConfigError, match=r"reading\.py.*make it main_agent_only=True"):
        loads()


# -- tables ----------------------------------------------------------------------------------------


def test_the_table_of_options_has_all_of_them_with_their_defaults() -> None:
    rows = SKILLS.table("| option | if left out | when |")

    told = {code_in(option)[0]: default.strip("`") for option, default, _ in rows}
    assert set(told) == {"name", *ToolOptions.__annotations__}
    defaults = {each.name: each.default for each in fields(Tool)}
    for name in ToolOptions.__annotations__:
        if isinstance(defaults[name], bool):
            assert told[name] == str(defaults[name])
    assert told["effects"] == f"Effects.{defaults['effects'].name}"


def test_the_table_of_what_a_call_is_told_has_all_of_it() -> None:
    cells = [code_in(cell) for cell, _ in SKILLS.table("| | is |")]

    told = {word.removeprefix("await ").partition("(")[0] for words in cells for word in words}
    assert told == {each.name for each in fields(ToolContext)}


def test_the_table_of_services_has_all_of_them() -> None:
    cells = [code_in(cell)[0] for cell, _ in SKILLS.table("| `services` | gives |")]

    there = {name for name in dir(SkillServices) if not name.startswith("_")}
    inner = {"name", "folder", "limits", "stores"}
    assert {cell.strip(".").partition("(")[0] for cell in cells} == there - inner


def test_a_package_is_found_under_the_group_of_the_page() -> None:
    project = tomllib.loads(SKILLS.fragments("toml")[0])["project"]

    assert list(project["entry-points"]) == [GROUP]


# -- no code ---------------------------------------------------------------------------------------


def configured(section: str) -> Json:
    (found,) = [
        given[section]
        for each in SKILLS.fragments("yaml")
        if section in (given := yaml.safe_load(each))
    ]
    assert isinstance(found, dict)
    return found


def test_the_tools_of_servers_and_services_are_called_as_the_page_says() -> None:
    servers = McpSettings.model_validate(configured("mcp")).servers
    services = RestSettings.model_validate(configured("rest")).services
    forecast = services["weather"].requests["forecast"]

    for name in (
        mcp_name("time", servers["time"].runs[0]),
        by_hand("weather", "forecast", forecast).name,
        rest_name("shop", (services["shop"].operations or ())[0]),
    ):
        assert name in SKILLS.code_words


def test_every_search_provider_is_in_the_table() -> None:
    rows = SKILLS.table("| `search.provider` | needs |")

    assert {name for cell, _ in rows for name in code_in(cell)} == set(get_args(ProviderName))


def test_the_guide_beside_the_code_leads_here() -> None:
    assert "(../docs/skills.md)" in Page("skills/README.md").text
