"""A bot that is killed while a command runs: the model is told, and nothing is taken over."""

import time
from pathlib import Path

import pytest

from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.skills.shell.real.watching import begun
from tests.stories.actor import actor
from tests.stories.stage import Play, call, said

pytestmark = pytest.mark.timeout(120)


def found(folder: Path, name: str) -> list[Path]:
    return list(folder.rglob(name))


async def test_a_command_whose_bot_was_killed_may_have_run_and_changed_no_file(
    sqlite_url: str, tmp_path: Path
) -> None:
    mark = f"600.{time.monotonic_ns()}"
    command = f"echo half >half.txt; sleep {mark}"
    sections = {"shell": {}, "workspaces": {"folder": str(tmp_path / "workspaces")}}
    play = Play(main=[call("shell", command=command), call("file_list"), Reply(text="I looked.")])
    async with FakeAnthropic(play) as server:
        async with actor(sqlite_url, server.url, sections=sections) as first:
            first.say("alice", "Write it")
            await begun("sleep", mark, seconds=40)
            await first.kill()
        async with actor(sqlite_url, server.url, sections=sections) as second:
            await second.event("reply", text="I looked.")

    told, listed = (said(asked.body["messages"][-1]) for asked in server.requests[1:3])
    assert "shell may have run" in told
    assert "half.txt" not in listed
    assert found(tmp_path, "half.txt") == []
    assert play.main == []
