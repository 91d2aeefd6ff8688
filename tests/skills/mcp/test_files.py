"""Servers in the JSON files of other programs."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from bot.values import Json, Place
from skills.mcp.files import MOST_BYTES, read_servers
from skills.mcp.settings import McpSettings
from tests.skills.mcp.things import Bench, sdk_server

ENVIRON = {"TOKEN": "secret-of-mine", "ZONE": ""}


def save(folder: Path, content: object, name: str = ".mcp.json") -> str:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    path.chmod(0o600)
    return str(path)


def servers_in(folder: Path, servers: Json, key: str = "mcpServers") -> dict[str, Json]:
    return read_servers(save(folder, {key: servers}), ENVIRON)[0]


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_programs_and_addresses_are_read_as_other_programs_write_them(
    tmp_path: Path, key: str
) -> None:
    found = servers_in(
        tmp_path,
        {
            "Time Server": {
                "type": "stdio",
                "command": "mcp-server-time",
                "args": ["--local-timezone", "${ZONE:-UTC}"],
                "env": {"TOKEN": "${TOKEN}", "LEVEL": 3},
                "cwd": "/srv",
            },
            "tickets": {"url": "https://t.example/mcp", "headers": {"X-Key": "Bearer ${TOKEN}"}},
            "web": {"type": "streamableHttp", "url": "https://w.example/mcp"},
        },
        key,
    )

    common = {"enabled": True, "review_first": True}
    assert found == {
        "time-server": {
            **common,
            "command": ["mcp-server-time", "--local-timezone", "UTC"],
            "environment": {"TOKEN": "secret-of-mine", "LEVEL": "3"},
            "folder": "/srv",
        },
        "tickets": {
            **common,
            "url": "https://t.example/mcp",
            "headers": {"X-Key": "Bearer secret-of-mine"},
        },
        "web": {**common, "url": "https://w.example/mcp"},
    }


def test_a_file_of_a_plugin_has_the_servers_alone(tmp_path: Path) -> None:
    servers = {"a": {"command": "x"}, "b": {"type": "http", "url": "https://b.example/mcp"}}

    found = read_servers(save(tmp_path, servers), ENVIRON)

    assert found.servers == servers_in(tmp_path, servers)
    assert found.remarks == []


@pytest.mark.parametrize("more", [{"c": {"name": "x"}}, {"version": 1}])
def test_a_file_of_something_else_has_no_servers(tmp_path: Path, more: Json) -> None:
    with pytest.raises(ValueError, match="has no `mcpServers`"):
        read_servers(save(tmp_path, {"a": {"command": "x"}} | more), ENVIRON)


def test_a_server_that_is_off_needs_no_variables(tmp_path: Path) -> None:
    entry = {"command": "x", "env": {"A": "${MISSING}"}}

    found = servers_in(
        tmp_path, {"a": {**entry, "disabled": True}, "b": {**entry, "enabled": False}}
    )

    assert not any(server["enabled"] for server in found.values())


def test_other_keys_are_remarks(tmp_path: Path) -> None:
    file = save(tmp_path, {"mcpServers": {"a": {"command": "x", "autoApprove": ["y"]}}})

    assert read_servers(file, ENVIRON)[1] == [f"{file}, server 'a': `autoApprove` is not used"]


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ({"a": {"type": "sse", "url": "https://x.example"}}, "`sse` is outdated"),
        ({"a": {"type": "carrier pigeon", "url": "https://x.example"}}, "must be stdio or http"),
        ({"a": {"type": "stdio", "url": "https://x.example"}}, "it has no `command`"),
        ({"a": {}}, "neither `command` nor `url`"),
        ({"a": []}, "must be an object"),
        ({"a": {"command": ["x"]}}, "`command` must be text"),
        ({"a": {"command": "x", "args": "y"}}, "`args` a list"),
        ({"a": {"command": "x", "env": ["y"]}}, "`environment` must be an object"),
        ({"a b": {"command": "x"}, "a-B": {"command": "y"}}, "is called 'a-b' too"),
        ({"a": {"command": "${MISSING}"}}, "line 4: the environment variable MISSING is not set"),
    ],
)
def test_an_entry_that_cannot_be_used_is_named(tmp_path: Path, servers: Json, said: str) -> None:
    with pytest.raises(ValueError, match=r"\.mcp\.json, server ") as refused:
        servers_in(tmp_path, servers)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "line 1: it is no JSON"),
        ("[1]", "has no `mcpServers`"),
        ('{"mcpServers": 5}', "has no `mcpServers`"),
        ("[" * 100_000, "nested too deeply"),
        ('{"mcpServers": {"a": ' + "[" * 50 + "]" * 50 + "}}", "has no `mcpServers`"),
        (" " * (MOST_BYTES + 1), "is larger than 256 KB"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"\.mcp\.json") as refused:
        read_servers(save(tmp_path, content), ENVIRON)

    assert said in str(refused.value)


def test_a_file_that_is_missing_or_that_everyone_may_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_servers(str(tmp_path / "none.json"), ENVIRON)

    file = save(tmp_path, {"mcpServers": {}})
    Path(file).chmod(0o602)
    with pytest.raises(ValueError, match=r"written by everyone on this machine: chmod o-w"):
        read_servers(file, ENVIRON)


def test_the_configuration_adds_to_the_servers_of_files(tmp_path: Path) -> None:
    entry = {"command": "mcp-server-time"}
    file = save(tmp_path, {"mcpServers": {"time": entry, "other": entry}})
    own = {"time": {"runs": ["get_current_time"]}, "third": {"url": "https://x.example/mcp"}}

    settings = McpSettings.model_validate({"files": [file], "servers": own})

    time, other, third = (settings.servers[name] for name in ("time", "other", "third"))
    assert (time.command, time.runs) == (("mcp-server-time",), ("get_current_time",))
    assert (time.review_first, other.review_first, third.review_first) == (True, True, False)
    with pytest.raises(ValidationError, match="another file has a server 'time' too"):
        McpSettings.model_validate(
            {"files": [file, save(tmp_path, {"servers": {"time": entry}}, "b.json")]}
        )


async def test_no_tool_of_a_server_from_a_file_is_used_before_an_admin_approves_it(
    bench: Bench,
) -> None:
    server = await bench.open(fake=sdk_server(review_first=True))

    assert not server.tools
    assert "echo" in server.waiting
    shown = [pin for pin in await bench.servers.pins.waiting("fake") if pin.tool == "echo"]
    await bench.servers.approve("fake", by="terminal:admin", place=Place("terminal"), shown=shown)
    await bench.until(server, lambda server: "echo" not in server.waiting)

    assert bench.tool("mcp__fake__echo") in server.tools
