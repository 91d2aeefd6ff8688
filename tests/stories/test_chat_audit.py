"""Admins read what was done, by whom and to whose work, and nobody else does."""

import json
from pathlib import Path
from typing import Any

from bot.accounts import account_of
from bot.conversations.access import AccessSettings
from bot.running import Bot
from db import audit_chain
from db.audit_chain import AuditKey, Verification
from skills.settings import OwnSkillsSettings
from tests.fakes.anthropic_server import Reply
from tests.fakes.patience import eventually
from tests.stories.at_terminal import at_terminal
from tests.stories.chats import ChatWay, new_chat
from tests.stories.stage import Play, call
from tests.stories.test_chat_control import command, hens


def kept_in(folder: Path) -> dict[str, Any]:
    """Return the sections with which the key of the audit log is in this folder."""
    return {"skills": OwnSkillsSettings(data_folder=str(folder / "skills"))}


async def verified(bot: Bot, folder: Path) -> Verification:
    """Verify the log once all entries are sealed."""
    key = AuditKey((folder / "audit.key").read_bytes())

    async def verify() -> Verification:
        async with bot.database.snapshot() as tx:
            return await audit_chain.verify(tx, [key])

    async def all_sealed() -> bool:
        return not (await verify()).unsealed

    await eventually(all_sealed, "a seal on all entries")
    return await verify()


async def test_an_admin_reads_what_was_done_and_by_whom_and_nobody_else_does(
    chat_way: ChatWay, tmp_path: Path
) -> None:
    async with new_chat(chat_way) as chat:
        access = AccessSettings(admins=(chat.account("root"),))
        async with chat.bot(hens(), access=access, **kept_in(tmp_path)):
            talk = await chat.ask("alice", "Count my hens.")
            await chat.card(talk, "hens")
            await chat.gate.held(1)
            refused = await command(chat, "bob", "audit")
            await chat.ask_privately("root", "!subagents stop hens")
            await chat.until(lambda: chat.direct_texts("root"), "that it stops")
            shown = await command(chat, "root", "audit")
            accounts = {user: chat.account(user) for user in ("alice", "bob", "root")}
            options = f"--action stop --user {accounts['alice']}"
            of_alice = await command(chat, "root", f"audit {options}")
            of_bob = await command(chat, "root", f"audit --user {accounts['bob']}")
            await command(chat, "root", "audit file")
            ((name, content),) = chat.direct_files("root")
            found = await verified(chat.running, tmp_path)

            entries = [json.loads(line) for line in content.splitlines()]
            by = {each["action"]: (each["actor"], each["owner"]) for each in entries}
            alice, root = (account_of(accounts[user]).key for user in ("alice", "root"))
            assert "There is no command" in refused
            assert "spawn" in shown
            assert "stop" in of_alice
            assert "spawn" not in of_alice
            assert "spawn" not in of_bob
            assert "stop" not in of_bob
            assert name.endswith(".jsonl")
            assert by["spawn"] == (alice, alice)
            assert by["stop"] == (root, alice)
            assert by["view"] == (root, "")
            assert (found.first_bad, found.unsealed) == (None, 0)
            assert found.entries >= len(entries)


async def test_at_the_terminal_the_audit_log_is_read_and_verifies(
    sqlite_url: str, tmp_path: Path
) -> None:
    play = Play(
        main=[call("sessions_spawn", task="Count the hens", label="hens"), Reply(text="Begun.")],
        runs={"Count": [Reply(text="Six hens.")]},
    )
    access = AccessSettings(admins=("terminal:root",))
    async with at_terminal(sqlite_url, play, name="root", access=access, **kept_in(tmp_path)) as it:
        it.send("Count my hens.")
        await it.shows("Six hens.")
        it.send("/audit --action spawn")
        await it.shows("terminal:root spawn")
        it.send("/audit file")
        await it.shows("-retinue-audit-")
        found = await verified(it.bot, tmp_path)

    assert (found.first_bad, found.unsealed) == (None, 0)
    assert found.entries >= 3
