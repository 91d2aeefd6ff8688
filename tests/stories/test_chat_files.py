"""Files in and out of a thread, in every chat: what is kept, shown, sent and deleted."""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bot.agent.messages import SHOWN_BEFORE
from bot.subagents.retention import RetentionSettings
from skills.files.settings import WorkspaceSettings
from skills.mcp.settings import McpSettings
from tests.fakes.anthropic_server import Reply
from tests.fakes.documents import pdf
from tests.fakes.patience import eventually
from tests.fakes.pictures import PNG
from tests.skills.mcp.things import sdk_server
from tests.stories.chats import ChatWay, new_chat
from tests.stories.stage import Play, call, calls, is_run, said

PLAN = ("plan.md", "text/markdown", b"Feed the hens")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of all workspaces."""
    return tmp_path / "workspaces"


def names_in(folder: Path) -> list[str]:
    """Return the names of the files in the workspaces, other than former versions."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return sorted(path.name for path in found)


async def test_a_copy_of_an_attached_file_is_deleted_with_its_message(
    chat_way: ChatWay, folder: Path
) -> None:
    play = Play(main=[Reply(text="I have it.")])
    workspaces = WorkspaceSettings(folder=str(folder))
    async with new_chat(chat_way) as chat, chat.bot(play, workspaces=workspaces):
        talk = await chat.ask("alice", "Here is our plan.", files=[PLAN])
        await chat.reads(talk, "I have it.")

        async def copied() -> bool:
            return names_in(folder) == ["plan.md"]

        await eventually(copied, "a copy")

        await chat.delete(talk.message)

        async def gone() -> bool:
            return not names_in(folder)

        await eventually(gone, "no copy")


async def test_a_thread_has_a_quota_for_writes_and_for_attached_files(
    chat_way: ChatWay, folder: Path
) -> None:
    play = Play(
        main=[
            call("file_write", path="sheep.md", text="x" * 9_990),
            Reply(text="Written."),
            call("file_write", path="hens.md", text="x" * 11),
            Reply(text="There is no room."),
            Reply(text="I have it."),
        ]
    )
    small = WorkspaceSettings(folder=str(folder), place_bytes=10_000)
    async with new_chat(chat_way) as chat, chat.bot(play, workspaces=small):
        talk = await chat.ask("alice", "Write about sheep.")
        await chat.reads(talk, "Written.")
        await chat.write("bob", talk, "And about hens.", mention=True)
        await chat.reads(talk, "There is no room.")
        assert "This place's files would take 10 kB together" in said(play.asked[3]["messages"][-1])
        further = await chat.ask("alice", "Here is our plan.", files=[PLAN])
        await chat.reads(further, "I have it.")

        async def copied() -> bool:
            return names_in(folder) == ["plan.md", "sheep.md"]

        await eventually(copied, "the files of both threads")


async def test_an_attached_file_without_room_is_read_and_its_user_is_told(
    chat_way: ChatWay, folder: Path
) -> None:
    large = ("large.md", "text/markdown", b"x" * 10_001)
    play = Play(main=[Reply(text="I have it.")])
    small = WorkspaceSettings(folder=str(folder), place_bytes=10_000)
    async with new_chat(chat_way) as chat, chat.bot(play, workspaces=small):
        talk = await chat.ask("alice", "Here is our plan.", files=[large])
        await chat.reads(talk, "I have it.")
        told = "I can read large.md, but there was no room for a copy"
        await chat.until(lambda: told in str([*chat.texts(talk), *chat.told("alice")]), told)

        assert names_in(folder) == []
        assert "xxx" in str(play.asked[0]["messages"])


async def test_the_files_of_a_thread_are_deleted_some_time_after_its_last_message(
    chat_way: ChatWay, folder: Path
) -> None:
    play = Play(
        main=[call("file_write", path="plan.md", text="Feed the hens"), Reply(text="Done.")]
    )
    workspaces = WorkspaceSettings(folder=str(folder))
    async with new_chat(chat_way) as chat:
        async with chat.bot(play, workspaces=workspaces):
            talk = await chat.ask("alice", "Write it down.")
            await chat.reads(talk, "Done.")
            # The files are kept for a time after the last message, which this is.
            await chat.stored("Done.")
        assert names_in(folder) == ["plan.md"]

        short = RetentionSettings(files_days=1e-7)
        async with chat.bot(Play(), workspaces=workspaces, retention=short):

            async def gone() -> bool:
                return not names_in(folder)

            await eventually(gone, "no files")


async def test_the_files_of_a_background_run_follow_its_announcement(chat_way: ChatWay) -> None:
    play = Play(
        main=[call("sessions_spawn", task="Count them", label="count"), Reply(text="I count.")],
        runs={
            "Count them": [
                call("file_write", path="hens.csv", text="hens,3"),
                call("file_send", paths=["hens.csv"]),
                call("wait_here"),
                Reply(text="Three hens."),
            ]
        },
    )
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "Count the hens, and send a list.")
        await chat.reads(talk, "I count.")
        await chat.gate.reached.wait()
        told = [said(each["messages"][-1]) for each in play.asked if is_run(each)]
        assert "sent with your result: hens.csv" in told[-1]
        assert chat.files(talk) == []

        chat.gate.opened.set()
        await chat.reads(talk, "Three hens.")
        await chat.until(lambda: chat.files(talk), "the files")
        assert chat.files(talk) == [("hens.csv", b"hens,3")]
        texts = chat.texts(talk)
        assert any("Three hens." in each for each in texts[:-1]), "the files come last"


async def test_an_image_of_an_mcp_server_is_seen_and_can_be_sent(
    chat_way: ChatWay, folder: Path
) -> None:
    servers = {"art": sdk_server(read_only=["drawing"])}
    path = f"images/art-{sha256(PNG).hexdigest()[:8]}.png"
    play = Play(
        main=[call("mcp__art__drawing"), call("file_send", paths=[path]), Reply(text="Here it is.")]
    )
    given: dict[str, Any] = {
        "mcp": McpSettings.model_validate({"servers": servers}),
        "workspaces": WorkspaceSettings(folder=str(folder)),
    }
    async with new_chat(chat_way) as chat, chat.bot(play, **given):
        tools = chat.running.registry
        await chat.until(lambda: tools.find("mcp__art__drawing"), "the tool")
        talk = await chat.ask("alice", "Draw a dot.")
        await chat.reads(talk, "Here it is.")

        (result,) = play.asked[1]["messages"][-1]["content"]
        assert result["content"][1]["source"]["data"] == b64encode(PNG).decode()
        assert [content for _, content in chat.files(talk)] == [PNG]


async def test_the_pages_of_a_pdf_are_seen_on_request(chat_way: ChatWay) -> None:
    content = pdf("Feed the hens at nine")
    play = Play(
        main=[
            Reply(text="I have it."),
            calls(("attachment_read", {"name": "plan.pdf", "show": True})),
            Reply(text="At nine."),
            Reply(text="Still at nine."),
        ]
    )
    async with new_chat(chat_way) as chat, chat.bot(play):
        files = [("plan.pdf", "application/pdf", content)]
        talk = await chat.ask("alice", "Here is our plan.", files=files)
        await chat.reads(talk, "I have it.")
        await chat.write("bob", talk, "Look at the drawing in it.", mention=True)
        await chat.reads(talk, "At nine.")
        await chat.write("bob", talk, "And now?", mention=True)
        await chat.reads(talk, "Still at nine.")

        (result,) = play.asked[2]["messages"][-1]["content"]
        text, page = result["content"]
        assert text["text"].startswith("[plan.pdf, 1 page, shown with this result.")
        assert (page["type"], page["title"]) == ("document", "plan.pdf")
        assert page["source"]["data"] == b64encode(content).decode()
        assert SHOWN_BEFORE in str(play.asked[3]["messages"])
