"""Below the disk reserve the whole bot stores nothing new of users: files, pages, commands."""

from pathlib import Path

from bot.disk import DiskSettings
from bot.net.settings import FetchSettings
from bot.platforms.base import Incoming
from bot.platforms.messages import Attachment
from bot.values import new_run_id
from skills.files.settings import WorkspaceSettings
from skills.shell.settings import ShellSettings
from tests.fakes.anthropic_server import Reply
from tests.stories.stage import ALICE, ROOM, Play, calls, newest, stage

NEARLY_FULL = "until an admin of the machine has made room"


async def test_below_the_reserve_files_pages_commands_and_attachments_are_refused(
    sqlite_url: str, tmp_path: Path
) -> None:
    read = []

    async def content() -> bytes:
        read.append("plan.txt")
        return b"the plan"

    incoming = Incoming(
        event_id=new_run_id(),
        user=ALICE,
        user_name="Alice",
        place=ROOM,
        text="Keep https://example.com/ and this",
        files=(Attachment(name="plan.txt", media_type="text/plain", size=8, read=content),),
    )
    play = Play([Reply(text="Reading."), Reply(text="No.")])
    async with stage(
        sqlite_url,
        play,
        workspaces=WorkspaceSettings(folder=str(tmp_path / "workspaces")),
        disk=DiskSettings(reserve_bytes=10**18, reserve_percent=100),
        fetch=FetchSettings(enabled=True),
        shell=ShellSettings(),
    ) as it:
        offered = {tool.name for tool in it.bot.registry.tools_for(is_subagent=False)}
        wanted = [
            ("file_write", {"path": "a.txt", "text": "a"}),
            ("web_fetch", {"url": "https://example.com/"}),
            ("shell", {"command": "echo x >x"}),
        ]
        used = [(name, arguments) for name, arguments in wanted if name in offered]
        play.main[0] = calls(*used)
        await it.bot.orchestrator.receive(incoming)
        await it.outlet.replied()

    asked, told = (newest(body) for body in play.asked[:2])
    assert {name for name, _ in used} >= {"file_write", "web_fetch"}
    assert "my disk is nearly full" in asked
    assert told.count(NEARLY_FULL) == len(used)
    assert read == []
    stored = [path for path in (tmp_path / "workspaces").rglob("*") if path.is_file()]
    assert {path.name for path in stored} <= {"lock"}
