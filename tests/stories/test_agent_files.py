"""What an agent's file says reaches its run: effort, Agent Skills, servers, a folder of its own."""

from pathlib import Path
from typing import Any

from bot.agent.settings import AgentSkillsSettings, AgentsSettings
from bot.values import RunStatus
from skills.files.workspace import OWN as OF_PERSON
from skills.files.workspace import RUNS
from skills.mcp.settings import McpSettings
from tests.fakes.anthropic_server import Reply
from tests.skills.mcp.things import odd_server
from tests.stories.farm import Cast, Work, farm
from tests.stories.stage import call
from tests.stories.test_built_in_limits import OWN, offered
from tests.stories.test_other_servers import there
from tests.stories.test_others_agents import prompt_of

SCRIBE = """\
---
name: scribe
description: Writes down what the time is.
effort: high
skills: [house-style]
workspace: run
mcpServers: [time]
tools: [file_write]
---
You are the scribe.
"""
SKILL = "---\nname: {name}\ndescription: How we write.\n---\n{body}\n"


def sections(folder: Path) -> dict[str, Any]:
    """Return the sections of a configuration with the scribe, two skills and two servers."""
    (folder / "agents").mkdir()
    (folder / "agents" / "scribe.md").write_text(SCRIBE)
    bodies = {"house-style": "Write times as the sun has them.", "sea-style": "Write as the sea."}
    for name, body in bodies.items():
        (folder / "skills" / name).mkdir(parents=True)
        (folder / "skills" / name / "SKILL.md").write_text(SKILL.format(name=name, body=body))
    servers = {name: odd_server("odd", runs=["fine"]) for name in ("time", "tide")}
    return {
        "agents": AgentsSettings(folders=(str(folder / "agents"),)),
        "agent_skills": AgentSkillsSettings(folders=(str(folder / "skills"),)),
        "mcp": McpSettings.model_validate({"servers": servers}),
    }


def asks_and_writes(work: Work) -> Reply:
    """Ask the server, write down what it says, and report what came of both."""
    match len(work.results):
        case 0:
            return call("mcp__time__fine", text="Now?")
        case 1:
            time = work.results[0].rstrip().rpartition("\n")[2]
            return call("file_write", path="README.md", text=f"It is {time}.\n")
        case _:
            return Reply(text=work.results[-1])


async def test_a_run_works_with_what_its_agents_file_names_and_with_nothing_else(
    sqlite_url: str, tmp_path: Path
) -> None:
    cast = Cast(asks_and_writes)
    async with farm(sqlite_url, tmp_path, cast, **sections(tmp_path)) as it:
        await there(it.stage, ["mcp__time__fine", "mcp__tide__fine"])
        before = it.fingerprint()

        run, told = await it.spawn("scribe", "Write down the time")

        assert (run.agent, run.status) == ("scribe", RunStatus.COMPLETED), told
        assert [body.get("output_config") for body in cast.of_runs] == [{"effort": "high"}] * 3
        prompt = prompt_of(cast.of_runs[0])
        assert "You are the scribe." in prompt
        assert "Write times as the sun has them." in prompt
        assert "Write as the sea." not in prompt
        assert offered(cast.of_runs[0]) == {"file_write", "mcp__time__fine"} | OWN
        assert "README.md" in told, told
        assert it.folder.name == OF_PERSON
        assert it.fingerprint() == before
        (written,) = (it.folder.parent / RUNS).rglob("README.md")
        assert written.read_text() == "It is fine.\n"
