"""The count of collections: what loads, and why the rest does not."""

import json
from pathlib import Path

import pytest

from tests.collection_counts import main, report

AGENT = "---\nname: {}\ndescription: {}\n---\nWork.\n"
SKILL = "---\nname: {}\ndescription: Does it.\n---\nDo it.\n"


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_collection_is_counted_and_each_file_that_does_not_load_is_named(tmp_path: Path) -> None:
    put(tmp_path / "agents/good.md", AGENT.format("good", "Works."))
    put(tmp_path / "agents/notes.md", "Notes, and no agent.\n")
    put(tmp_path / "agents/broken.md", "---\nname: broken\n---\n")
    put(tmp_path / "more/good.md", AGENT.format("good", "Works otherwise."))
    put(tmp_path / "skills/one/SKILL.md", SKILL.format("one"))
    put(tmp_path / "skills/two/SKILL.md", SKILL.format("Not A Name"))
    put(tmp_path / ".hidden/three/SKILL.md", SKILL.format("three"))
    secret = {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${SECRET}"}}
    put(tmp_path / "a/.mcp.json", json.dumps({"mcpServers": {"a": secret, "b": {"command": "x"}}}))
    put(tmp_path / "b/.mcp.json", json.dumps({"mcpServers": {"a": {"type": "sse", "url": "x"}}}))
    put(tmp_path / "c/.mcp.json", json.dumps({"mcpServers": {"a": {"url": "ftp://x"}}}))

    lines = list(report(tmp_path))

    assert lines[1:4] == [
        "  agents: 1 of 3 files loaded; 1 other Markdown file without an agent",
        "  Agent Skills: 1 of 2 files loaded; in 1 folder for `agent_skills.folders`",
        "  MCP servers: 1 of 3 files loaded; 2 servers",
    ]
    reasons = "\n".join(lines[4:])
    for said in (
        "agents/broken.md: `description` is missing",
        "more/good.md: agents/good.md has an agent `good` already",
        "skills/two/SKILL.md: two/SKILL.md: `name` must be",
        "b/.mcp.json, server 'a': the transport `sse` is outdated",
        "c/.mcp.json: ",
    ):
        assert said in reasons
    assert len(lines) == 9


def test_an_empty_folder_and_a_missing_one_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  agents: none",
        "  Agent Skills: none",
        "  MCP servers: none",
    ]
    assert main([str(tmp_path / "none")]) == 2
    assert "There is no folder" in capsys.readouterr().err
    assert main([]) == 2
