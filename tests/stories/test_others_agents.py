"""Agent files as people write them for Claude Code: they load, and work, as they are."""

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.agent.settings import AgentsSettings
from bot.subagents.limits import SpawnRateLimit, SubagentSettings
from bot.values import Json, RunStatus
from tests.fakes.anthropic_server import Reply
from tests.stories.farm import Cast, Farm, Work, farm
from tests.stories.stage import ALICE, Play, Stage, call, stage, task_of
from tests.stories.test_built_in_limits import GENERAL, OWN, offered

ROOT = Path(__file__).parents[2]
HAIKU, SONNET = "claude-haiku-5-5", "claude-sonnet-5-5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """A file, and what comes of it.

    Attributes:
        tools: What its run may call; `None` for all that a run may.
        model: What answers for it.
        warned: What `check` says of it.
    """

    head: str
    tools: set[str] | None
    model: str = HAIKU
    newline: str = "\n"
    mark: str = ""
    warned: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        text = f"---\nname: {path.stem}\n{self.head}---\n\nYou are the {path.stem}.\n\n- Be kind.\n"
        path.write_bytes((self.mark + text.replace("\n", self.newline)).encode())


FILES = {
    "code-reviewer": Theirs(
        head="description: Use this agent when code was written. Examples:\\n\\n<example>\\n"
        'Context: a function was written.\\nuser: "Write: a prime check"\\n'
        'assistant: "Now the reviewer: it looks at it"\\n'
        "<commentary>\\nProactively.\\n</commentary>\\n</example>\n"
        "tools: Read, Grep, Glob, Bash\nmodel: sonnet\ncolor: red\n",
        tools={"file_read", "grep", "glob"},
        model=SONNET,
    ),
    "debugger": Theirs(
        head="description: Debugging specialist for errors and test failures.\n"
        "tools: Read, Edit, Bash, Grep, Glob\nmodel: inherit\n",
        tools={"file_read", "file_edit", "grep", "glob"},
        newline="\r\n",
    ),
    "docs-writer": Theirs(
        head="description: Writes docs.\ntools: Read, Write, MultiEdit, LS, ExitPlanMode\n"
        "model: haiku\ncolor: cyan\n",
        tools={"file_read", "file_write", "file_edit", "file_list"},
        mark="\ufeff",
        warned=("docs-writer.md: there is no tool `ExitPlanMode` here.",),
    ),
    "test-runner": Theirs(
        head="description: Use PROACTIVELY to run tests: all of them\nmodel: opus\n",
        tools=None,
        warned=(
            "The agent test-runner names the model `opus`, which `models` does not allow; "
            f"anthropic/{HAIKU} answers instead.",
        ),
    ),
    "research-lead": Theirs(
        head="description: Leads research.\n"
        "tools: WebSearch, WebFetch, Task, TodoWrite, mcp__github__search_issues\n"
        "permissionMode: plan\n",
        tools={"web_search", "web_fetch", "todo_write"},
        warned=(
            "research-lead.md: `permissionMode` is not used: see `permissions` and `approvals`.",
            "research-lead.md: there is no tool `mcp__github__search_issues` here.",
        ),
    ),
    "migrator": Theirs(
        head="description: Use this agent when tables change, for example:\n  <example>\n"
        '  user: "Add a column: email"\n  </example>\n'
        "tools:\n  - Read\n  - Bash(git diff:*)\n  - Grep\nversion: 1.2\n",
        tools={"file_read", "grep"},
        warned=(
            "migrator.md: the pattern in `Bash(git diff:*)` says nothing here; see `permissions`.",
            "migrator.md: `version` is not used.",
        ),
    ),
    "architect": Theirs(
        head='description: |\n  Designs systems.\n\n  <example>\n  user: "How: so?"\n  </example>\n'
        "tools: *\nmodel: claude-3-opus-20240229\n",
        tools=None,
        warned=(
            "The agent architect names the model `claude-3-opus-20240229`, which `models` does "
            f"not allow; anthropic/{HAIKU} answers instead.",
        ),
    ),
}
BROKEN = "---\nname: broken\ndescription: It has no end.\n\nYou are broken.\n"
BROKEN_WARNING = "broken.md must begin with front matter between two lines `---`."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all these files."""
    folder = tmp_path / "their-agents"
    folder.mkdir()
    for name, theirs in FILES.items():
        theirs.write(folder / f"{name}.md")
    (folder / "broken.md").write_text(BROKEN)
    return folder


def reads_first(work: Work) -> Reply:
    """Read a file, or say that this is not possible."""
    if not work.results:
        return call("file_read", path="README.md")
    return Reply(text=work.results[-1].replace("\n", " "))


async def test_each_does_its_work_with_its_tools_its_model_and_its_prompt(
    sqlite_url: str, tmp_path: Path, folder: Path
) -> None:
    many = SubagentSettings(spawn_rate_limit=SpawnRateLimit(max_requests=100))
    agents = AgentsSettings(folders=(str(folder),))
    cast = Cast(reads_first)
    async with farm(sqlite_url, tmp_path, cast, agents=agents, subagents=many) as it:
        for name, theirs in FILES.items():
            cast.asked.clear()
            run, told = await it.spawn(name, f"Look as {name}")

            first = cast.of_runs[0]
            assert (run.agent, run.status) == (name, RunStatus.COMPLETED)
            assert first["model"] == theirs.model
            assert f"You are the {name}.\n\n- Be kind." in prompt_of(first)
            if theirs.tools is None:
                assert offered(first) >= GENERAL.tools | OWN
            else:
                assert offered(first) == theirs.tools | OWN
            reads = theirs.tools is None or "file_read" in theirs.tools
            assert ("Begin with farm/api.py" if reads else "You have no tool") in told
        await tells_of_all(it)


async def tells_of_all(it: Farm) -> None:
    """Everyone is told who there is, and that the broken one is not."""
    answer = await it.stage.command(ALICE, "/subagents agents")
    assert all(f"**{name}**" in answer.text for name in FILES)
    assert "Use this agent when code was written." in answer.text
    refused = await it.stage.command(ALICE, "/subagents spawn --agent broken Look")
    assert "There is no agent “broken”. " in refused.text
    assert "Nothing was started." in refused.text


def prompt_of(body: Json) -> str:
    return "\n".join(block["text"] for block in body["system"])


def test_what_is_not_used_of_them_is_a_warning_of_check_and_one_that_is_broken_too(
    tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "config.yaml").write_text(f"agents: {{folders: [{folder.name}]}}\n")

    done = subprocess.run(
        [sys.executable, "-m", "bot", "check"],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "PYTHONUTF8": "1",
            "ANTHROPIC_API_KEY": "the-first-key-of-mine",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    told, _, warnings = " ".join(done.stdout.split()).partition("Warnings ")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f" {name}," in told or f" {name} " in told for name in FILES)
    for warning in (BROKEN_WARNING, *(each for file in FILES.values() for each in file.warned)):
        assert warning in warnings
        warnings = warnings.replace(warning, "")
    assert warnings.strip() == ""


# -- while the bot runs ----------------------------------------------------------------------------


def rules(word: str, tools: str) -> str:
    return f"---\nname: helper\ndescription: It {word}.\ntools: {tools}\n---\nYou {word}.\n"


async def described(it: Stage, words: str) -> None:
    """Wait until the bot has read the files anew: it looks at them once a second at most."""
    async with asyncio.timeout(10):
        while True:
            if words in (await it.command(ALICE, "/subagents agents")).text:
                return
            await asyncio.sleep(0.05)


async def test_a_file_that_changes_counts_for_the_next_run_and_a_broken_one_for_none(
    sqlite_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "helper.md"
    file.write_text(rules("sing", "Glob, wait_here"))
    work = [call("wait_here"), Reply(text="Over.")]
    play = Play(runs={word: list(work[word != "First" :]) for word in ("First", "Second", "Third")})
    agents = AgentsSettings(folders=(str(tmp_path),))
    async with stage(sqlite_url, play, agents=agents) as it:
        await it.command(ALICE, "/subagents spawn --agent helper First")
        await it.gate.held(1)
        file.write_text(rules("dance", "Grep"))
        await described(it, "It dance.")
        it.gate.opened.set()
        await it.outlet.announced((await it.run_of("First")).id)
        await spawned(it, "Second")
        file.write_text(rules("fall", "Grep").replace("tools: Grep", "tools: 5"))
        (tmp_path / "other.md").write_text(rules("fly", "Grep").replace("helper", "other"))
        await described(it, "It fly.")
        await spawned(it, "Third")

        prompts = [
            ("sing" if "You sing." in prompt_of(body) else "dance", task_of(body))
            for body in play.asked
        ]
        assert prompts == [
            ("sing", "First"),
            ("sing", "First"),
            ("dance", "Second"),
            ("dance", "Third"),
        ]
        assert offered(play.asked[1]) - OWN == {"glob", "wait_here"}
        assert offered(play.asked[3]) - OWN == {"grep"}


async def spawned(it: Stage, task: str) -> None:
    await it.command(ALICE, f"/subagents spawn --agent helper {task}")
    await it.outlet.announced((await it.run_of(task)).id)
