"""What the doctor finds: the database, who holds it, the keys, and what is not there yet."""

import os
import socket
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.engine import make_url

from bot.checks import Check, works
from bot.config.model import Config
from bot.doctor import examine, told
from bot.models.anthropic import AnthropicSettings
from bot.models.catalog import ModelSettings
from bot.models.openai import OpenAISettings
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.slack.settings import SlackSettings
from db.database import Database, DatabaseSettings, hold
from skills.files.settings import WorkspaceSettings
from skills.mcp.pins import Pins
from skills.mcp.settings import McpSettings
from skills.mcp.tools import offers
from skills.rest.settings import RestSettings
from skills.shell.settings import ShellSettings
from tests.fakes.anthropic_server import KEY, FakeAnthropic, Reply
from tests.fakes.clock import FakeClock
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.model_server import in_order
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.rest_server import rest_server
from tests.fakes.slack.server import FakeSlack
from tests.skills.mcp.things import sdk_server


def configured(url: str) -> Config:
    return Config(database=DatabaseSettings(url=url))


async def finding(config: Config, subject: str) -> Check:
    found = {each.subject: each for each in await examine(config)}
    return found[subject]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken, so that no other process listens on it, and answers nobody."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


async def test_a_database_with_all_tables_is_good(database_url: str) -> None:
    found = await finding(configured(database_url), "Database")

    assert found.good is True
    assert "current" in found.text


async def test_a_file_that_is_not_there_is_no_fault_and_is_not_made(tmp_path: Path) -> None:
    file = tmp_path / "data" / "retinue.db"

    found = await examine(configured(f"sqlite:///{file}"))

    assert not any(each.good is False for each in found)
    assert found[0].good is None
    assert "does not exist yet" in found[0].text
    assert not file.parent.exists()


async def test_a_file_that_cannot_be_made_is_bad(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    found = await finding(configured(f"sqlite:///{tmp_path}/file/retinue.db"), "Database")

    assert found.good is False
    assert f"{tmp_path}/file is a file, not a folder." in found.text


async def test_a_database_without_tables_is_sent_to_migrate(empty_postgres_url: str) -> None:
    found = await finding(configured(empty_postgres_url), "Database")

    assert found.good is None
    assert "has no tables yet: `python -m bot migrate`" in found.text


@pytest.mark.parametrize(
    ("version", "mark", "advice"),
    [("2026112107", False, "with Retinue 0.1.0"), ("2999010101", False, "Install a newer bot")],
)
async def test_tables_of_another_version_are_told_with_what_to_do(
    sqlite_url: str, version: str, mark: bool | None, advice: str
) -> None:
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
    connection.close()

    found = await finding(configured(sqlite_url), "Database")

    assert found.good is mark
    assert version in found.text
    assert advice in found.text


async def test_a_file_that_is_no_database_is_bad(tmp_path: Path) -> None:
    file = tmp_path / "retinue.db"
    file.write_text("a letter, or something like it" * 100)

    found = await finding(configured(f"sqlite:///{file}"), "Database")

    assert found.good is False
    assert f"{file}: file is not a database. Put a backup in its place" in found.text


async def test_a_server_that_does_not_answer_is_bad_and_its_password_is_not_shown(
    closed_port: int,
) -> None:
    url = f"postgresql://bot:hunter22@127.0.0.1:{closed_port}/retinue"

    found = await finding(configured(url), "Database")

    assert found.good is False
    assert "hunter22" not in found.text
    assert "bot:[secret]@127.0.0.1" in found.text


async def test_the_process_that_holds_the_file_is_named_and_not_disturbed(sqlite_url: str) -> None:
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    assert (await finding(configured(sqlite_url), "Bot")).good is None
    assert not file.with_name("retinue.db.lock").exists()

    lock = hold(file)
    held = await finding(configured(sqlite_url), "Bot")
    os.close(lock)
    free = await finding(configured(sqlite_url), "Bot")

    assert held == works(f"process {os.getpid()} is running and holds {file}.", "Bot")
    assert free.good is None
    os.close(hold(file))


async def test_search_is_looked_at_and_what_is_off_says_so(sqlite_url: str) -> None:
    found = {each.subject: each for each in await examine(configured(sqlite_url))}

    assert "FTS5" in found["Search"].text
    sandbox = found["Sandbox"]
    assert (sandbox.good is True) == ("the shell tool is on." in sandbox.text)
    assert (sandbox.good is True) == ("Limits here: files and bytes on disk" in sandbox.text)
    assert (sandbox.good is None) == sandbox.text.startswith("the shell tool is off. ")
    for subject in ("Discord", "Slack"):
        assert found[subject].good is None
        assert f"{subject.upper()}_" in found[subject].text
        assert f"docs/{subject.lower()}.md" in found[subject].text
    assert str(found["Terminal"]).startswith("– Terminal")


@pytest.mark.parametrize(
    ("shell", "workspaces", "told"),
    [
        (False, True, "the shell tool is off. It is switched off: `shell.enabled` is false."),
        (True, False, "off: `workspaces.enabled` is false."),
    ],
)
async def test_a_shell_tool_that_is_switched_off_is_named_with_the_key(
    sqlite_url: str, shell: bool, workspaces: bool, told: str
) -> None:
    config = Config(
        database=DatabaseSettings(url=sqlite_url),
        shell=ShellSettings(enabled=shell),
        workspaces=WorkspaceSettings(enabled=workspaces),
    )

    found = await finding(config, "Sandbox")

    assert (found.good, found.text) == (None, told)


async def test_a_shell_tool_that_this_machine_cannot_have_is_named_with_the_reason(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.path", [])

    found = await finding(configured(sqlite_url), "Sandbox")

    assert found.good is None
    assert found.text.startswith("the shell tool is off. ")
    assert len(found.text) > len("the shell tool is off. ") + 20


async def test_without_a_key_the_demo_answers_and_that_is_no_fault(tmp_path: Path) -> None:
    found = await examine(configured(f"sqlite:///{tmp_path}/retinue.db"), online=True)

    model, answer = (each for each in found if each.subject in {"Model", "Answer"})
    assert (model.good, answer.good) == (None, True)
    assert "offline demo" in model.text


def with_model(url: str, key: str, tmp_path: Path) -> Config:
    settings = AnthropicSettings(api_key=SecretStr(key), base_url=url)
    return Config(
        models=ModelSettings(anthropic=settings),
        database=DatabaseSettings(url=f"sqlite:///{tmp_path}/retinue.db"),
    )


async def test_a_model_that_was_not_asked_is_not_called_good(tmp_path: Path) -> None:
    """A provider was `✓ … answers` as soon as some key was set."""
    async with FakeAnthropic(in_order(Reply(text="Yes."))) as server:
        silent = await lines_of(with_model(server.url, KEY, tmp_path), "Model")
        server.known = frozenset({"claude-sonnet-5-5"})
        asked = await lines_of(with_model(server.url, KEY, tmp_path), "Model")
        refused = await lines_of(with_model(server.url, "some-other-key", tmp_path), "Model")
    gone = await lines_of(with_model(server.url, KEY, tmp_path), "Model")

    assert [each.good for each in silent] == [None, None]
    assert "`python -m bot doctor --online` asks it" in silent[0].text
    assert [each.good for each in asked] == [True, False]
    assert "claude-haiku-5-5: its provider has no such model" in asked[1].text
    assert "its provider refuses the key: check `models.anthropic.api_key`" in refused[0].text
    assert {each.good for each in gone} == {False}
    assert "cannot be reached" in gone[0].text


async def lines_of(config: Config, subject: str) -> list[Check]:
    return [each for each in await examine(config) if each.subject == subject]


async def test_a_server_like_openai_says_which_models_it_has(tmp_path: Path) -> None:
    async with FakeOpenAI(in_order(Reply(text="Yes."))) as server:
        server.known = frozenset({"llama"})
        settings = OpenAISettings(
            api_key=SecretStr(KEY), base_url=f"{server.url}/v1", main_model="lama"
        )
        config = Config(
            models=ModelSettings(openai=settings),
            database=DatabaseSettings(url=f"sqlite:///{tmp_path}/retinue.db"),
        )

        (found,) = await lines_of(config, "Model")

    assert found.good is False
    assert "openai/lama: its provider has no such model" in found.text


async def test_an_account_without_rights_is_told_which_one_it_lacks(
    postgres_url: str, empty_postgres_url: str
) -> None:
    name = f"guest_{uuid.uuid4().hex}"
    async with Database.open(DatabaseSettings(url=postgres_url)) as database:
        async with database.transaction() as tx:
            await tx.execute(text(f"CREATE ROLE {name} LOGIN"))
            await tx.execute(text(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}"))
        full, empty = (
            make_url(url).set(username=name).render_as_string(hide_password=False)
            for url in (postgres_url, empty_postgres_url)
        )

        reads = await examine(configured(full))
        finds = await examine(configured(empty))

        async with database.transaction() as tx:
            await tx.execute(text(f"DROP OWNED BY {name}"))
            await tx.execute(text(f"DROP ROLE {name}"))

    assert [each.good for each in reads[:2]] == [False, None]
    assert "the account may not write the table " in reads[0].text
    assert "not tried" in reads[1].text
    assert "the account may not make tables there. Grant the account" in finds[0].text


def test_what_is_unwise_and_what_is_broken_is_told(tmp_path: Path) -> None:
    config = Config.model_validate({"agents": {"folders": [str(tmp_path / "none")]}})
    broken = Config.model_validate({"skills": {"folders": [str(tmp_path)]}})
    (tmp_path / "bad.py").write_text("raise ValueError('no')")

    found = told(config, ["A token stands in the file."])

    assert [each.subject for each in found] == ["Config", "Agents"]
    assert (
        f"The folder {tmp_path}/none of agents is not there: make it, or change `agents.folders`."
        in found[1].text
    )
    assert "bad.py" in told(broken, [])[0].text


async def test_a_folder_for_files_that_cannot_be_made_is_bad(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = Config.model_validate(
        {
            "database": {"url": f"sqlite:///{tmp_path}/retinue.db"},
            "workspaces": {"folder": f"{tmp_path}/file/files"},
        }
    )

    found = await finding(config, "Files")

    assert found.good is False
    assert f"`workspaces.folder`: {tmp_path}/file is a file" in found.text


async def test_both_models_are_asked_only_when_that_is_wanted(tmp_path: Path) -> None:
    async with FakeAnthropic(in_order(Reply(text="Yes."))) as server:
        config = with_model(server.url, KEY, tmp_path)

        silent = [each for each in await examine(config) if each.subject == "Answer"]
        asked = [each for each in await examine(config, online=True) if each.subject == "Answer"]

    models = [config.models.anthropic.main_model, config.models.anthropic.subagent_model]
    assert silent == []
    assert [each.good for each in asked] == [True, True]
    assert [request.body["model"] for request in server.requests] == models


async def test_a_key_that_is_refused_is_bad_and_not_shown(tmp_path: Path) -> None:
    async with FakeAnthropic(in_order(Reply(text="Yes."))) as server:
        config = with_model(server.url, "not-the-key-of-the-tests", tmp_path)

        found = await examine(config, online=True)

    answer = next(each for each in found if each.subject == "Answer")
    assert answer.good is False
    assert "not-the-key-of-the-tests" not in "".join(map(str, found))


def on_discord(tmp_path: Path, token: str, api_url: str) -> Config:
    return Config(
        discord=DiscordSettings(token=SecretStr(token), api_url=api_url),
        database=DatabaseSettings(url=f"sqlite:///{tmp_path}/retinue.db"),
    )


async def test_discord_is_asked_about_the_bot_as_soon_as_there_is_a_token(tmp_path: Path) -> None:
    async with FakeDiscord.open() as discord:
        good = await examine(on_discord(tmp_path, discord.token, discord.api_url))
        bad = await examine(on_discord(tmp_path, "not-the-token", discord.api_url))

    lines = [each for each in good if each.subject == "Discord"]
    assert [each.good for each in lines[:2]] == [True, None]
    assert "Message Content Intent" in lines[1].text
    (refused,) = (each for each in bad if each.subject == "Discord")
    assert refused.good is False
    assert "Reset Token" in refused.text
    assert "not-the-token" not in str(bad)


async def test_discord_that_cannot_be_reached_is_bad(tmp_path: Path, closed_port: int) -> None:
    config = on_discord(tmp_path, "some-token", f"http://127.0.0.1:{closed_port}/api/v10")

    found = await finding(config, "Discord")

    assert found.good is False
    assert f"cannot be reached at http://127.0.0.1:{closed_port}" in found.text


def on_slack(tmp_path: Path, token: str, slack: FakeSlack) -> Config:
    settings = SlackSettings(
        bot_token=SecretStr(token), app_token=SecretStr(slack.app_token), api_url=slack.api_url
    )
    return Config(slack=settings, database=DatabaseSettings(url=f"sqlite:///{tmp_path}/retinue.db"))


async def test_slack_is_asked_about_the_bot_as_soon_as_there_is_a_token(tmp_path: Path) -> None:
    async with FakeSlack.open() as slack:
        good = await examine(on_slack(tmp_path, slack.bot_token, slack))
        slack.granted_scopes = ["chat:write"]
        bad = await examine(on_slack(tmp_path, slack.bot_token, slack))
        refused = await examine(on_slack(tmp_path, "xoxb-not-the-token", slack))

    def marks(found: list[Check]) -> list[bool | None]:
        return [each.good for each in found if each.subject == "Slack"]

    assert marks(good) == [True, True, None, True]
    assert marks(bad) == [True, False, True]
    assert marks(refused) == [False, True]
    assert "not-the-token" not in str(refused)


async def test_mcp_servers_and_rest_services_are_connected_to_and_what_waits_is_told(
    database_url: str, clock: FakeClock
) -> None:
    async with rest_server() as fake:
        config = Config(
            database=DatabaseSettings(url=database_url),
            mcp=McpSettings.model_validate(
                {"servers": {"fake": sdk_server(), "gone": {"command": ["/no/such/program"]}}}
            ),
            rest=RestSettings.model_validate(
                {"services": {"api": {"document": f"{fake.base}/openapi.json"}}}
            ),
        )
        async with Database.open(config.database) as database:
            pins = Pins(database, clock)
            for words in ("Say it.", "Say it to me."):
                tool = {"name": "say", "description": words, "inputSchema": {"type": "object"}}
                await pins.review("fake", offers("fake", [tool])[0])

            found = await examine(config)
            (kept,) = await pins.known("fake")

    lines = [each for each in found if each.subject in {"MCP", "REST"}]
    assert [each.good for each in lines] == [True, False, None, False]
    assert "there is no program /no/such/program" in lines[1].text
    assert lines[2].text == "fake: 1 waiting for a yes: `python -m bot mcp list`."
    assert "is not to be had (503)" in lines[3].text
    # It looks, and takes nothing over.
    assert kept.tool == "say"


async def test_admins_read_reasons_and_the_log_says_nothing_twice(
    tmp_path: Path, closed_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The text was for users: "cannot be reached now. Try again later, or go on without it."."""
    address = f"http://127.0.0.1:{closed_port}"
    config = Config.model_validate(
        {
            "database": {"url": f"postgresql://bot:hunter22@127.0.0.1:{closed_port}/retinue"},
            "models": {"anthropic": {"api_key": KEY, "base_url": address}},
            "calendar": {"calendars": {"team": {"url": f"{address}/dav/"}}},
            "rest": {"services": {"api": {"document": f"{address}/openapi.json"}}},
        }
    )

    found = await examine(config)

    bad = {each.subject: each.text for each in found if each.good is False}
    assert set(bad) == {"Database", "Model", "Calendar", "REST"}
    assert bad["Database"].endswith(
        "Check host and port in `database.url`, and that the server runs."
    )
    assert all(str(closed_port) in text for text in bad.values())
    assert "Try again" not in str(bad)
    assert caplog.text == ""


async def test_without_servers_and_services_nothing_is_said_of_them(sqlite_url: str) -> None:
    found = await examine(configured(sqlite_url))

    assert not {"MCP", "REST"} & {each.subject for each in found}
