"""A user's workspace with a small code base in it, and models that go by what tools return."""

import hashlib
import html
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.running import Bot
from bot.values import Identity, Json, Role, utc_now
from db import conversations
from db.runs import Run
from skills.base import Skill, ToolContext
from skills.files.settings import WorkspaceSettings
from skills.files.workspaces import Workspaces
from tests.fakes.anthropic_server import Reply
from tests.fakes.rows import meet
from tests.stories.stage import ALICE, ROOM, Play, Stage, is_run, said, stage

BARN = '''\
"""Barns, and what stands in them."""

import json


def count_barns(farm):
    """Return how many barns a farm has."""
    return len(farm["barns"])


def load_farm(path, seen=[]):
    try:
        seen.append(path)
        return json.load(open(path))
    except:
        return None
'''
FILES = {
    "README.md": "# Farm\n\nBegin with farm/api.py: it answers what people ask.\n",
    "farm/__init__.py": "",
    "farm/api.py": "from farm.barn import count_barns\n\n\ndef barns(farm):\n"
    '    return {"barns": count_barns(farm)}\n',
    "farm/barn.py": BARN,
    "farm/tests/test_barn.py": "from farm.barn import load_farm\n\n\ndef test_none():\n"
    "    assert load_farm('nowhere') is None\n",
    "attic/old.py": "def count_barns(farm):\n    return 12  # since 1987\n",
    "data/eggs.csv": "hen,eggs\nBerta,4\nAlma,7\nCilla,1\n",
    "docs/barns.md": "Our own count of 2024: 41,000 barns.\n",
}


def line_of(path: str, text: str) -> int:
    """Return the number of the only line of a file that holds a text."""
    (number,) = [n for n, line in enumerate(FILES[path].split("\n"), 1) if text in line]
    return number


@dataclass(frozen=True, slots=True)
class Work:
    """What a model knows when it is asked.

    Attributes:
        task: What the run, or the main agent, was told first.
        results: What the tools have returned so far, as the model reads it.
    """

    task: str
    results: tuple[str, ...]

    @classmethod
    def of(cls, body: Json) -> "Work":
        """Return what a request tells."""
        results = [
            html.unescape(said({"content": [block]}))
            for message in body["messages"]
            if not isinstance(message["content"], str)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        return cls(said(body["messages"][0]), tuple(results))

    def given(self, name: str) -> str:
        """Return one field of a structured task."""
        return next(
            line.removeprefix(f"{name}: ")
            for line in self.task.split("\n")
            if line.startswith(f"{name}: ")
        )


#: Decides the next answer from what is known.
Decide = Callable[[Work], Reply]


@dataclass
class Cast:
    """The model: one that decides for the runs, and lines for the main agent, in order."""

    run: Decide
    main: list[Reply | Decide] = field(default_factory=list)
    asked: list[Json] = field(default_factory=list)

    def __call__(self, body: Json) -> Reply:
        """Answer a request."""
        self.asked.append(body)
        line = self.run if is_run(body) else self.main.pop(0)
        return line if isinstance(line, Reply) else _decided(line, Work.of(body))

    @property
    def of_runs(self) -> list[Json]:
        """What runs have asked."""
        return [body for body in self.asked if is_run(body)]


def _decided(decide: Decide, work: Work) -> Reply:
    """Return the decision; of one who does not understand the results, a report that says so."""
    try:
        return decide(work)
    except (AssertionError, LookupError, StopIteration, ValueError) as error:
        return Reply(text=f"I do not understand what the tools say: {error!r}, {work.results}")


@dataclass
class Farm:
    """A bot in a shared place whose workspace has the files."""

    stage: Stage
    folder: Path
    cast: Cast

    def fingerprint(self) -> str:
        """Return what changes with any file or folder, its name or what is in it."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.rglob("*")):
            content = b"/" if path.is_dir() else path.read_bytes()
            digest.update(f"{path} {path.stat().st_mode} {len(content)} ".encode() + content)
        return digest.hexdigest()

    async def spawn(self, agent: str, task: str) -> tuple[Run, str]:
        """Let an agent do a task in the background; return its run and what was announced."""
        answer = await self.stage.command(ALICE, f"/subagents spawn --agent {agent} {task}")
        assert "✅ Started" in answer.text, answer.text
        run = await self.stage.run_of(task)
        told = await self.stage.outlet.announced(run.id)
        return await self.stage.run_of(task), told.text

    async def ask(self, text: str) -> str:
        """Let the user say something to the main agent, and return its reply."""
        await self.stage.say(ALICE, text)
        reply = await self.stage.outlet.replied()
        assert reply.final is not None
        return reply.final


@asynccontextmanager
async def farm(
    database_url: str, folder: Path, cast: Cast, further: tuple[Skill, ...] = (), **sections: Any
) -> AsyncIterator[Farm]:
    """Open a bot, and put the files into the workspace of the place."""
    settings = WorkspaceSettings(folder=str(folder / "workspaces"))
    top = Workspaces(settings).of(_anywhere(ALICE)).path
    sections = {"workspaces": settings, **sections}
    async with stage(database_url, Play(), script=cast, further_skills=further, **sections) as it:
        await _begin(it.bot)
        for name, text in FILES.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(text, encoding="utf-8")
        yield Farm(it, top, cast)


async def _begin(bot: Bot) -> None:
    """Begin a conversation in the place, since the files of a place without one are deleted."""
    now = utc_now()
    await meet(bot.database, ALICE, now)
    mode = bot.config().conversations.at(ROOM)
    async with bot.database.transaction() as tx:
        conversation_id = await conversations.find_or_open(tx, ALICE, ROOM, now, mode)
        await conversations.say(tx, conversation_id, role="reset", text="", now=now)


def _anywhere(user: Identity) -> ToolContext:
    return ToolContext(
        user=user,
        role=Role.USER,
        place=ROOM,
        conversation_id="",
        work_id="",
        call_id="",
        run_id=None,
        now=utc_now,
        shared=True,
    )
