"""A user takes a copy of everything that is stored about them, and has it deleted."""

import json
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

from sqlalchemy import select

from bot.accounts import account_of
from bot.agent.settings import AgentSettings
from bot.values import utc_now
from db import holds
from db.database import Database
from db.holds import Hold
from db.tables import audit, metadata
from skills.files.settings import WorkspaceSettings
from skills.settings import OwnSkillsSettings
from tests.fakes.anthropic_server import Reply
from tests.stories.at_terminal import at_terminal
from tests.stories.chats import Chat, ChatWay, new_chat
from tests.stories.stage import Play, call, calls


def opened(content: bytes) -> dict[str, bytes]:
    """Return the entries of a ZIP file."""
    with ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def copy_of(chat: Chat, user: str) -> dict[str, bytes]:
    """Return the entries of the copy that was sent to a user."""
    ((name, content),) = chat.direct_files(user)
    assert name.endswith(".zip")
    return opened(content)


async def stored(database: Database) -> str:
    """Return all that the database holds, as text."""
    async with database.snapshot() as tx:
        rows = [
            repr(tuple(row))
            for table in metadata.sorted_tables
            for row in await tx.execute(select(table))
        ]
    return "\n".join(rows)


async def test_a_user_gets_a_copy_of_all_that_is_theirs_in_direct_messages(
    chat_way: ChatWay, tmp_path: Path
) -> None:
    files = [("sheep.csv", "text/csv", b"name,age\nDolly,6\n")]
    play = Play(
        main=[
            calls(
                ("note_save", {"title": "hens", "text": "Ada and Bea"}),
                ("todo_write", {"items": [{"text": "Feed Ada", "status": "pending"}]}),
            ),
            Reply(text="I have noted it."),
            Reply(text="Hello Bob."),
        ]
    )
    folder = WorkspaceSettings(folder=str(tmp_path))
    async with new_chat(chat_way) as chat, chat.bot(play, workspaces=folder):
        talk = await chat.ask("alice", "Note the names of my hens.", files=files)
        await chat.reads(talk, "I have noted it.")
        await chat.write("bob", talk, "I like foxes.", mention=True)
        await chat.reads(talk, "Hello Bob.")
        answer = await chat.command("alice", talk, "retinue export")
        copy = copy_of(chat, "alice")

        assert answer.private
        assert "in our direct messages" in answer.text
        assert chat.files(talk) == []
        assert chat.direct_files("bob") == []
        messages = [each["text"] for each in json.loads(copy["messages.json"])]
        assert messages == ["Note the names of my hens.", "I have noted it."]
        assert json.loads(copy["notes.json"])[0]["text"] == "Ada and Bea"
        assert "Feed Ada" in copy["todos.json"].decode()
        assert len(json.loads(copy["turns.json"])) == 1
        assert b"name,age\nDolly,6\n" in copy.values()
        assert "foxes" not in str(copy)
        alice = account_of(chat.account("alice")).key
        assert await noted(chat.running.database, "export") == [(alice, alice)]


async def test_a_user_who_confirms_is_forgotten_and_the_others_are_not(
    chat_way: ChatWay, tmp_path: Path
) -> None:
    small = AgentSettings(context_tokens=10_000, compact_at=0.4)
    long = "a long tale of hens, " * 350
    play = Play(
        main=[
            call("note_save", title="zebra", text="A zebra has stripes"),
            Reply(text="Noted."),
            Reply(text="A fox."),
            Reply(text="They spoke of a zebra."),
            Reply(text="Foxes are red."),
            Reply(text="I know of foxes."),
            Reply(text="I know of foxes alone."),
        ]
    )
    folder = WorkspaceSettings(folder=str(tmp_path))
    async with new_chat(chat_way) as chat:
        talk = await chat.discuss("root", "A zebra is near.")
        async with chat.bot(play, agent=small, workspaces=folder):
            await chat.ask_privately("alice", "Note that a zebra has stripes")
            await chat.until(lambda: len(play.asked) == 2, "a note")
            await chat.write("bob", talk, f"Foxes {long}", mention=True)
            await chat.reads(talk, "A fox.")
            await chat.write("alice", talk, f"My zebra {long}", mention=True)
            await chat.reads(talk, "Foxes are red.")
            assert "They spoke of a zebra." in await stored(chat.running.database)

            shown = await chat.command("alice", talk, "retinue forget", whom="me")
            assert shown.private
            assert "for good" in shown.text
            assert "My zebra" in await stored(chat.running.database)
            done = await chat.command("alice", talk, "retinue forget", whom="me yes")

            assert done.private
            assert "is deleted" in done.text
            left = await stored(chat.running.database)
            assert "My zebra" not in left
            assert "They spoke of a zebra." not in left
            assert "stripes" not in left
            assert len(await noted(chat.running.database, "forget")) == 1
            assert "A zebra is near." in left
            assert "Foxes a long tale" in left
            await chat.write("bob", talk, "What do you know?", mention=True)
            await chat.reads(talk, "I know of foxes")
            known = json.dumps(play.asked[-1]["messages"])
            assert "My zebra" not in known
            assert "They spoke" not in known
            assert "Foxes" in known


async def noted(database: Database, action: str) -> list[tuple[str, str]]:
    """Return actor and owner of the entries of an action in the audit log."""
    async with database.snapshot() as tx:
        found = select(audit.c.user_id, audit.c.owner_id).where(audit.c.action == action)
        return [(row.user_id, row.owner_id) for row in await tx.execute(found)]


async def hold(chat: Chat, user: str) -> str:
    """Place a legal hold on a user, and return the key of the account."""
    database, shown = chat.running.database, chat.account(user)
    key = account_of(shown).key
    held = Hold(user_id=key, shown=shown, name="Case 7", held_by="root", created_at=utc_now())
    await database.write(holds.place, held)
    return key


async def test_a_user_under_a_hold_is_not_forgotten_and_reads_nothing_of_the_case(
    chat_way: ChatWay,
) -> None:
    play = Play(main=[Reply(text="Striped."), Reply(text="White."), Reply(text="Gone?")])
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "My zebra is striped.")
        await chat.reads(talk, "Striped.")
        said = await chat.write("alice", talk, "My horse is white.", mention=True)
        await chat.reads(talk, "White.")
        key = await hold(chat, "alice")

        await chat.delete(said)
        await chat.gone("My horse is white.")
        answers = [
            await chat.command("alice", talk, "retinue forget", whom=words)
            for words in ("me", "me yes")
        ]
        await chat.command("alice", talk, "retinue export")
        copy = str(copy_of(chat, "alice"))
        left = await stored(chat.running.database)
        await chat.running.database.write(holds.release, key, "Case 7")
        done = await chat.command("alice", talk, "retinue forget", whom="me yes")

        for answer in answers:
            assert answer.private
            assert "Nothing is deleted: what is stored about you has to be kept" in answer.text
            assert "Case" not in answer.text
        assert "zebra" in copy
        assert "Case 7" not in copy
        assert "horse" not in copy.replace("White", "")
        assert "My zebra is striped." in left
        assert "My horse is white." in left
        assert "is deleted" in done.text
        after = await stored(chat.running.database)
        assert "zebra" not in after
        assert "horse" not in after


async def test_the_terminal_saves_the_copy_in_a_file_and_forgets_its_user(
    database_url: str, tmp_path: Path
) -> None:
    play = Play(
        main=[
            calls(
                ("note_save", {"title": "zebra", "text": "stripes"}),
                ("file_write", {"path": "zebra.txt", "text": "black and white"}),
            ),
            Reply(text="Noted."),
        ]
    )
    workspaces = WorkspaceSettings(folder=str(tmp_path / "workspaces"))
    further = OwnSkillsSettings(data_folder=str(tmp_path / "skills"))
    async with at_terminal(database_url, play, workspaces=workspaces, skills=further) as desk:
        desk.send("Note that a zebra has stripes")
        await desk.shows("Noted.")
        desk.send("/export")
        await desk.shows("All that I have stored about you is in")
        (file,) = (tmp_path / "exports").iterdir()
        copy = opened(file.read_bytes())
        assert file.stat().st_mode & 0o777 == 0o600
        assert copy["workspace/zebra.txt"] == b"black and white"
        assert "stripes" in copy["notes.json"].decode()

        others = file.with_name(f"alice-retinue-{file.name}")
        others.write_bytes(b"")

        desk.send("/forget me")
        await desk.shows("the copies that /export saved")
        await desk.shows("there is no way back")
        desk.send("/forget me yes")
        await desk.shows("is deleted")

        left = await stored(desk.bot.database)
        assert "zebra" not in left
        assert not list((tmp_path / "workspaces").glob("*/own/zebra.txt"))
        assert list((tmp_path / "exports").iterdir()) == [others]
