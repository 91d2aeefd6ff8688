"""What an agent deletes or replaces is taken back by its user, and by nobody else."""

from pathlib import Path

from bot.values import RunStatus
from bot.workspaces.settings import WorkspaceSettings
from tests.fakes.anthropic_server import Reply
from tests.stories.stage import ALICE, BOB, Play, call, said, stage


async def test_a_note_that_the_agent_deleted_is_brought_back_by_its_user_alone(
    database_url: str,
) -> None:
    play = Play(
        main=[
            call("note_save", text="Feed the owl"),
            call("note_delete", number=1),
            Reply(text="Deleted."),
            call("note_read", number=1),
            Reply(text="There it is."),
        ]
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Keep a note, and delete it")
        await it.outlet.replied(1)
        his = await it.command(BOB, "/retinue undo")
        refused = await it.command(BOB, "/retinue undo last")
        listed = await it.command(ALICE, "/retinue undo")
        done = await it.command(ALICE, "!undo last")
        await it.say(ALICE, "Read note 1")
        await it.outlet.replied(2)

    assert his.text == refused.text == "There is nothing to undo."
    assert "deleted note 1 “Feed the owl” (in our conversation)" in listed.text
    assert done.text.startswith("Restored note 1")
    assert "Feed the owl" in said(play.asked[-1]["messages"][-1])


async def test_a_file_that_a_run_wrote_over_is_brought_back_by_the_owner_of_the_run(
    sqlite_url: str, tmp_path: Path
) -> None:
    play = Play(
        main=[
            call("file_write", path="plan.md", text="mine"),
            call("sessions_spawn", task="Tidy up"),
            Reply(text="It is under way."),
        ],
        runs={"Tidy up": [call("file_write", path="plan.md", text="tidy"), Reply(text="Tidied.")]},
    )
    folder = tmp_path / "workspaces"
    async with stage(sqlite_url, play, workspaces=WorkspaceSettings(folder=str(folder))) as it:
        await it.say(ALICE, "Write a plan, then have it tidied")
        run = await it.ended("Tidy up", RunStatus.COMPLETED)
        (path,) = folder.glob("*/own/plan.md")
        before = path.read_text()
        listed = await it.command(ALICE, "/retinue undo")
        done = await it.command(ALICE, "/retinue undo last")

    assert before == "tidy"
    assert f"replaced `plan.md` (by run `{run.id[:8]}`" in listed.text
    assert done.text.startswith("Restored `plan.md`.")
    assert path.read_text() == "mine"


async def test_old_former_versions_are_dropped_by_a_bot_that_runs(
    sqlite_url: str, tmp_path: Path
) -> None:
    settings = WorkspaceSettings(folder=str(tmp_path / "workspaces"))
    old = tmp_path / "workspaces/.former/0123/own" / f"{1:014x}{'0' * 18}"
    old.mkdir(parents=True)
    (old / "about.json").write_text("{}")

    async with stage(sqlite_url, Play(), workspaces=settings) as it:
        for duty in it.bot.upkeep.further:
            await duty()

    assert not old.exists()
