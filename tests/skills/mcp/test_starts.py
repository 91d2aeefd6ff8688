"""A server of a file is not started before an admin approves it in its exact form."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from bot.config.model import Config
from bot.errors import BadRequestError
from bot.values import Json, Place
from db.database import Database, DatabaseSettings
from db.tables import audit
from skills.files.settings import WorkspaceSettings
from skills.mcp.approvals import listed, start
from skills.mcp.checkup import checks
from skills.mcp.pins import Pins
from skills.mcp.settings import McpSettings
from skills.mcp.starts import WAITS, StartRequest, start_request
from tests.fakes.clock import FakeClock
from tests.skills.mcp.things import ROOT, Bench


def settings_of(folder: Path, entry: Json, **own: Json) -> McpSettings:
    file = folder / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"fake": entry}}))
    file.chmod(0o600)
    return McpSettings.model_validate({"files": [str(file)], "servers": own})


def request_of(folder: Path, entry: Json, **own: Json) -> StartRequest:
    settings = settings_of(folder, entry, **own)
    return start_request("fake", settings.servers["fake"], settings.written["fake"])


def marking(marker: Path) -> Json:
    """A server that leaves a file when it is started."""
    fake = f"exec {shlex.quote(sys.executable)} -m tests.fakes.mcp_server stdio"
    return {
        "command": "sh",
        "args": ["-c", f"touch {shlex.quote(str(marker))}; {fake}"],
        "cwd": str(ROOT),
    }


async def test_a_server_of_a_file_is_started_only_after_an_approval_and_its_tools_wait_still(
    bench: Bench, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    server = await bench.open_settings(settings_of(tmp_path, marking(marker)))
    assert (server.problem, server.looked.is_set()) == (WAITS, True)
    assert not marker.exists()
    pin = await bench.servers.pins.start_of("fake")
    assert pin is not None

    await bench.servers.approve("fake", by="fake::root", place=Place("fake"), shown=[pin])
    await bench.until(server, lambda server: server.listed)

    assert marker.exists()
    assert "echo" in server.waiting
    assert not server.tools
    async with bench.database.snapshot() as tx:
        (note,) = (await tx.execute(select(audit))).all()
    assert (note.action, note.subject) == ("mcp start", "fake")


ENTRY: Json = {"command": "server", "args": ["--zone", "UTC"], "env": {"TOKEN": "${TOKEN:-a}"}}


@pytest.mark.parametrize(
    "change",
    [
        {"command": "other"},
        {"args": ["--zone", "CET"]},
        {"env": {"TOKEN": "${TOKEN:-a}", "MORE": "${TOKEN:-a}"}},
        {"env": {"TOKEN": "literal"}},
        {"cwd": "/srv"},
    ],
)
def test_another_form_of_an_entry_is_another_request(tmp_path: Path, change: Json) -> None:
    before = request_of(tmp_path, ENTRY)

    assert request_of(tmp_path, {**ENTRY, **change}).hash != before.hash
    assert request_of(tmp_path, dict(ENTRY)) == before


def test_an_entry_of_the_configuration_changes_the_request_too(tmp_path: Path) -> None:
    before = request_of(tmp_path, ENTRY)

    assert request_of(tmp_path, ENTRY, fake={"command": ["other"]}).hash != before.hash
    assert request_of(tmp_path, ENTRY, fake={"runs": ["x"]}).hash == before.hash


def test_a_new_value_of_a_variable_needs_no_approval_and_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for value in ("canary-one", "canary-two"):
        monkeypatch.setenv("TOKEN", value)
        found.append(request_of(tmp_path, ENTRY))

    assert found[0] == found[1]
    shown = json.dumps(found[0].definition)
    assert "--zone" in shown
    assert '"environment": ["TOKEN"]' in shown
    assert "canary" not in shown


def test_a_secret_in_an_argument_is_shown_as_the_file_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "canary")

    request = request_of(tmp_path, {"command": "server", "args": ["--key", "${TOKEN}"]})

    assert "${TOKEN}" in json.dumps(request.definition)
    assert "canary" not in json.dumps(request.definition)


async def test_a_change_after_the_approval_waits_again(
    database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    pins = Pins(database, clock)
    first = request_of(tmp_path, ENTRY)
    other = request_of(tmp_path, {**ENTRY, "command": "other"})
    assert not await pins.admits(first)
    pin = await pins.start_of("fake")
    assert pin is not None
    assert await pins.approve("fake", by="fake::root", shown=[pin]) == ("",)

    assert await pins.admits(first)
    assert not await pins.admits(other)
    # What an admin has seen is no longer what is offered.
    assert await pins.approve("fake", by="fake::root", shown=[pin]) == ()
    assert await pins.known("fake") == []


async def test_the_console_shows_and_starts_a_server_and_a_check_starts_none(
    database_url: str, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    mcp = settings_of(tmp_path, marking(marker))
    config = Config(database=DatabaseSettings(url=database_url), mcp=mcp)

    assert "fake is not started: an admin approves it" in (await checks(config))[0].text
    assert not marker.exists()
    assert f"touch {marker}" in (await listed(config)).replace("\n      + ", "")
    said = await start(config, "fake", name="Ada")

    assert said.startswith("✓ fake may be started:")
    with pytest.raises(BadRequestError, match="does not wait for an approval"):
        await start(config, "fake", name="Ada")
    assert "fake (sh) answers" in (await checks(config))[0].text
    assert marker.exists()


@pytest.mark.parametrize("link", [False, True])
def test_a_file_where_runs_write_is_refused(tmp_path: Path, *, link: bool) -> None:
    inside = tmp_path / "workspaces" / "user"
    inside.mkdir(parents=True)
    mcp = settings_of(inside, ENTRY)
    if link:
        (tmp_path / "config.json").symlink_to(inside / ".mcp.json")
        mcp = McpSettings.model_validate({"files": [str(tmp_path / "config.json")]})

    with pytest.raises(ValueError, match=r"below `workspaces.folder`, where runs write files"):
        Config(workspaces=WorkspaceSettings(folder=str(tmp_path / "workspaces")), mcp=mcp)
    Config(workspaces=WorkspaceSettings(folder=str(tmp_path / "elsewhere")), mcp=mcp)
