"""An operator carries out the walk-through of docs/administration.md, action by action."""

import asyncio
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from sqlalchemy import select
from typer.testing import CliRunner

from bot.__main__ import build
from bot.conversations.access import AccessSettings
from bot.values import Json
from db.tables import audit, conversations, messages
from skills.files.settings import WorkspaceSettings
from skills.settings import OwnSkillsSettings
from tests.docs.pages import Page
from tests.fakes.anthropic_server import Reply
from tests.fakes.console import log_as_before
from tests.stories.chats import Chat, ChatWay, Talk, new_chat
from tests.stories.live_file import LiveFile
from tests.stories.stage import Play, call

PAGE = Page("docs/administration.md")
#: Most actions by hand.
MOST = 25
_ACTION = re.compile(
    r"(\d+)\. .*?(with a mention of the bot in its channel|in `config\.yaml`)?: `([^`]+)` → “(.+)”"
)
#: The actions on the account in the audit log, in order.
OF_ACCOUNTS = ["hold", "release hold", "export", "delete"]
PRICES = {"prices": {"claude-sonnet-5-5": {"input": 0, "output": 10}}}


@dataclass(frozen=True)
class Action:
    """An action of the page.

    Attributes:
        where: The words that say where; empty for direct messages and the console.
        command: What is typed.
        words: What the operator reads then.
    """

    number: int
    where: str
    command: str
    words: str


def actions() -> list[Action]:
    """Return the actions of the page, in order."""
    _, _, section = PAGE.text.partition("\n## Walk-through\n")
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line[:1].isdigit()]
    found = [_ACTION.fullmatch(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if not match]
    return [Action(int(each[1]), each[2] or "", each[3], each[4]) for each in found if each]


def test_the_walk_has_no_more_actions_than_a_morning_takes() -> None:
    found = actions()

    assert [each.number for each in found] == list(range(1, len(found) + 1))
    assert 20 <= len(found) <= MOST


class Walk:
    """An operator at work: in chat, on the console, and in `config.yaml`."""

    def __init__(self, chat: Chat, file: LiveFile, base: Json, talk: Talk, ops: Talk) -> None:
        self._chat, self._file, self._talk, self._ops = chat, file, talk, ops
        self._config = base
        self._names: dict[str, str] = {"ACCOUNT": chat.account("alice")}

    async def learn(self) -> None:
        """Learn the place of the talk, and the code that a user gets who writes directly."""
        chat = self._chat
        route = (conversations.c[name] for name in ("place_workspace", "place_channel"))
        async with chat.running.database.snapshot() as tx:
            query = select(*route).where(conversations.c.shared)
            workspace, channel = (await tx.execute(query)).one()
        platform = self._names["ACCOUNT"].partition(":")[0]
        self._names["PLACE"] = f"{platform}:{workspace}:{channel}"
        await chat.ask_privately("bob", "Hello?")
        await chat.until(lambda: chat.direct_texts("bob"), "a code for bob")
        found = re.search(r"`([A-Z0-9]+)`", chat.direct_texts("bob")[-1])
        assert found
        self._names["CODE"] = found[1]

    def named(self, text: str) -> str:
        """Put in what the page has placeholders for."""
        for name, value in self._names.items():
            text = text.replace(name, value)
        return text

    async def carry_out(self, action: Action) -> None:
        """Do what the page says, and read what it says."""
        command, words = self.named(action.command), self.named(action.words)
        if "config.yaml" in action.where:
            await self._edit(command, words)
        elif command.startswith("python -m bot "):
            read = await self._console(command)
            assert words in read, f"{command}\n{read}"
        elif action.where:
            await self._chat.write("root", self._talk, command, mention=True)
            await self._chat.hears("root", words)
        else:
            read = await self._direct(command)
            assert words in read, f"{command}\n{read}"

    async def _edit(self, section: str, words: str) -> None:
        before = len(self._chat.texts(self._ops))
        self._config |= yaml.safe_load(section)
        self._file.replace(yaml.safe_dump(self._config))

        def notified() -> bool:
            return words in " ".join(self._chat.texts(self._ops)[before:])

        await self._chat.until(notified, f"{words!r} in the admin channel after {section}")

    async def _direct(self, command: str) -> str:
        before = len(self._chat.direct_texts("root"))
        await self._chat.ask_privately("root", command)
        await self._chat.until(
            lambda: len(self._chat.direct_texts("root")) > before, f"an answer to {command}"
        )
        return self._chat.direct_texts("root")[-1]

    async def _console(self, command: str) -> str:
        arguments = shlex.split(command.removeprefix("python -m bot "))
        with log_as_before():
            # Beside the bot, as from another process, which would take a second to start each time.
            done = await asyncio.to_thread(
                CliRunner().invoke, build(), [*arguments, f"--config={self._file.path}"]
            )
        # Long lines are broken where the terminal ends.
        return " ".join(done.output.split())


async def test_an_operator_walks_through_the_page(
    chat_way: ChatWay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    play = Play(
        main=[
            call("sessions_spawn", task="Count the hens", label="hens"),
            Reply(text="Begun."),
            Reply(text="Here I am."),
        ],
        runs={"Count": [call("wait_here"), Reply(text="Six hens.")]},
    )
    file = LiveFile(tmp_path)
    folders = {
        "workspaces": WorkspaceSettings(folder=str(tmp_path / "workspaces")),
        "skills": OwnSkillsSettings(data_folder=str(tmp_path / "skills")),
    }
    base: Json = {
        "database": {"url": chat_way.database_url},
        "workspaces": {"folder": str(tmp_path / "workspaces")},
        "skills": {"data_folder": str(tmp_path / "skills")},
    }
    async with new_chat(chat_way) as chat:
        name, ops = chat.add_admin_channel("root")
        access = AccessSettings(admins=(chat.account("root"),), admin_channel=(name,))
        given = {"access": access, "more_models": PRICES, **folders}
        paired = {"direct_messages": "paired"}
        async with chat.bot(play, file=file, settings=paired, **given):
            talk = await chat.ask("alice", "Count my hens.")
            await chat.reads(talk, "Begun.")
            await chat.gate.held(1)
            walk = Walk(chat, file, base, talk, ops)
            await walk.learn()

            first, *others = actions()
            await walk.carry_out(first)
            # A limit of which nothing is used yet cannot be raised.
            await chat.write("alice", talk, "Are you there?", mention=True)
            await chat.reads(talk, "Here I am.")
            for action in others:
                await walk.carry_out(action)

            async with chat.running.database.snapshot() as tx:
                texts = list(await tx.scalars(select(messages.c.text)))
                done = list(await tx.scalars(select(audit.c.action).order_by(audit.c.id)))
        with ZipFile(tmp_path / "copy.zip") as copy:
            assert b"Count my hens." in copy.read("messages.json")
        assert "Count my hens." not in texts
        assert [each for each in done if each in OF_ACCOUNTS] == OF_ACCOUNTS
