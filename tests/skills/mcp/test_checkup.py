"""What a look at MCP servers finds, without and with connecting."""

import os
import sys
from pathlib import Path

import pytest

from bot.checks import Check, is_off, works
from bot.values import Json
from skills.mcp.checkup import look
from skills.mcp.programs import missing
from skills.mcp.settings import McpServerSettings, McpSettings
from tests.skills.mcp.things import odd_server, sdk_server


async def looked(**servers: Json) -> list[Check]:
    return await look(McpSettings.model_validate({"servers": servers}), dict(os.environ))


async def test_servers_that_answer_are_told_with_the_number_of_their_tools() -> None:
    good, limited = await looked(fake=sdk_server(), one=sdk_server(tools=["echo"]))

    assert good == works(f"fake ({sys.executable}) answers: 13 tools.")
    assert limited.text.endswith("answers: 1 tool.")


async def test_what_is_wrong_with_a_server_is_told_and_the_others_are_looked_at_all_the_same() -> (
    None
):
    gone, silent, wrong, off, good = await looked(
        gone={"command": ["/no/such/program"]},
        silent={"command": ["sleep", "60"], "connect_seconds": 0.5},
        wrong=odd_server("odd", runs=["fine", "fien"]),
        off=sdk_server(enabled=False),
        good=sdk_server(),
    )

    assert gone.good is False
    assert "there is no program /no/such/program. Check `mcp.servers.gone`" in gone.text
    assert silent.good is False
    assert "it did not answer within 0.5 s" in silent.text
    assert wrong.good is None
    assert "it has no tool fien, which the configuration names" in wrong.text
    assert off == is_off("off is off: `mcp.servers.off.enabled` is false.")
    assert good.good


async def test_an_address_that_is_not_there_is_told_without_its_secrets() -> None:
    url = "http://127.0.0.1:1/canary-path"

    (remark,) = await looked(web={"url": url, "headers": {"X-Key": "canary-key"}})

    assert remark.good is False
    assert "web (http://127.0.0.1:1) cannot be used" in remark.text
    assert "canary" not in remark.text


def test_what_a_program_needs_is_looked_for_without_starting_it(tmp_path: Path) -> None:
    (tmp_path / "server").write_text("")
    (tmp_path / "server").chmod(0o700)

    def of(command: str, folder: Path | None = None, path: str = "") -> str:
        where = None if folder is None else str(folder)
        settings = McpServerSettings(command=(command, "--flag"), folder=where)
        return missing(settings, {"PATH": path})

    assert of("server", path=str(tmp_path)) == ""
    assert of("./server", tmp_path) == ""
    assert of(str(tmp_path / "server")) == ""
    assert of("server", tmp_path) == "there is no program server"
    assert of("./servant", tmp_path) == "there is no program ./servant"
    assert of("server", tmp_path / "x") == f"there is no folder {tmp_path / 'x'}"
    assert missing(McpServerSettings(url="http://host/mcp"), {}) == ""


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host/mcp?key=canary", "https://host"),
        ("http://[::1]:80/canary", "http://[::1]:80"),
    ],
)
def test_of_an_address_only_the_host_is_shown(url: str, shown: str) -> None:
    assert McpServerSettings(url=url).shown == shown
