"""A changed `config.yaml` counts while the bot runs, and admins are notified of it."""

from pathlib import Path

import pytest

from bot.conversations.access import AccessSettings
from tests.fakes.anthropic_server import Reply
from tests.fakes.patience import eventually
from tests.stories.at_terminal import at_terminal
from tests.stories.chats import ChatWay, new_chat
from tests.stories.live_file import LiveFile, open_watched
from tests.stories.stage import Play, call, config_for, newest_run

LIMIT = "subagents: {max_concurrent_per_user: 7}\n"


@pytest.fixture
def file(tmp_path: Path) -> LiveFile:
    return LiveFile(tmp_path)


async def test_a_changed_limit_counts_at_once_and_admins_read_what_changed(
    chat_way: ChatWay, file: LiveFile
) -> None:
    async with new_chat(chat_way) as chat:
        name, ops = chat.add_admin_channel("root")
        access = AccessSettings(admins=(chat.account("root"),), admin_channel=(name,))
        async with chat.bot(Play(main=[Reply(text="Hello.")]), file=file, access=access):
            talk = await chat.ask("alice", "Hello?")
            await chat.reads(talk, "Hello.")
            before = await chat.command("alice", talk, "subagents usage")
            await file.counts(LIMIT)
            after = await chat.command("alice", talk, "subagents usage")
            notice = await chat.reads(ops, "max_concurrent_per_user")

            assert "Running: 0 of 3" in before.text
            assert "Running: 0 of 7" in after.text
            assert "3 → 7" in notice.text
            assert len(chat.texts(ops)) == 1


async def test_a_new_permission_rule_counts_from_the_next_turn(
    chat_way: ChatWay, file: LiveFile
) -> None:
    play = Play(main=[Reply(text="One."), Reply(text="Two.")])
    async with new_chat(chat_way) as chat, chat.bot(play, file=file):
        talk = await chat.ask("alice", "First?")
        await chat.reads(talk, "One.")
        before = {each["name"] for each in play.asked[-1]["tools"]}
        await file.counts("permissions: {rules: {sessions_spawn: deny}}\n")
        await chat.write("alice", talk, "Second?", mention=True)
        await chat.reads(talk, "Two.")
        after = {each["name"] for each in play.asked[-1]["tools"]}

        assert before - after == {"sessions_spawn"}


async def test_an_admin_who_is_removed_has_no_powers_any_more(
    chat_way: ChatWay, file: LiveFile
) -> None:
    play = Play(
        main=[call("sessions_spawn", task="Dig", label="digging"), Reply(text="Started it.")],
        runs={"Dig": [call("wait_here"), Reply(text="Dug.")]},
    )
    async with new_chat(chat_way) as chat:
        access = AccessSettings(admins=(chat.account("root"),))
        async with chat.bot(play, file=file, access=access):
            talk = await chat.ask("alice", "Dig, please.")
            await chat.gate.held(1)
            await chat.reads(talk, "Started it.")
            run = (await newest_run(chat.running, "Dig")).id
            before = await chat.command("root", talk, "subagents info", run=run)
            await file.counts("access: {admins: []}\n")
            after = await chat.command("root", talk, "subagents info", run=run)
            chat.gate.opened.set()

            assert "Status: running" in before.text
            assert "Status" not in after.text


async def test_a_broken_file_changes_nothing_and_admins_read_the_line_and_the_remedy_once(
    chat_way: ChatWay, file: LiveFile
) -> None:
    async with new_chat(chat_way) as chat:
        name, ops = chat.add_admin_channel("root")
        access = AccessSettings(admins=(chat.account("root"),), admin_channel=(name,))
        async with chat.bot(Play(main=[Reply(text="Hello.")]), file=file, access=access):
            talk = await chat.ask("alice", "Hello?")
            await chat.reads(talk, "Hello.")
            file.replace("agent:\n  max_step: 3\nsubagents: {max_concurrent_per_user: 7}\n")
            notice = await chat.reads(ops, "max_step")
            usage = await chat.command("alice", talk, "subagents usage")

            assert "line 2" in notice.text
            assert "did you mean" in notice.text
            assert "stays in force" in notice.text
            assert "Running: 0 of 3" in usage.text
            await file.counts(LIMIT)
            await chat.reads(ops, "3 → 7")
            assert len(chat.texts(ops)) == 2


async def test_in_the_terminal_a_change_counts_and_its_admin_reads_it(
    sqlite_url: str, file: LiveFile
) -> None:
    access = AccessSettings(admins=("terminal:root",))
    async with at_terminal(sqlite_url, Play(), name="root", file=file, access=access) as it:
        await file.counts(LIMIT)
        await it.shows("max_concurrent_per_user: 3 → 7")
        it.send("/subagents usage")
        await it.shows("Running: 0 of 7")
        file.replace("subagents: {max_concurrent_per_user: 0}\n")
        await it.shows("must be at least 1")


async def test_while_the_file_has_a_mistake_no_line_of_it_is_the_source_of_a_value(
    sqlite_url: str, file: LiveFile
) -> None:
    access = AccessSettings(admins=("terminal:root",))
    async with at_terminal(sqlite_url, Play(), name="root", file=file, access=access) as it:
        await file.counts("roles: {everyone: {denied_tools: [shell]}}\n")
        it.send("/settings")
        await it.shows("config.yaml line 1")
        file.replace("# Denied:\nroles: {everyone: {denied_tools: [shell], agents: general}}\n")
        await it.shows("stays in force")
        it.send("/settings")
        await it.shows("roles.everyone.denied_tools, from before the last change of the file")

        assert "config.yaml line 2" not in it.read


async def test_a_misspelt_name_of_a_right_is_named_with_the_change(
    sqlite_url: str, file: LiveFile
) -> None:
    access = AccessSettings(admins=("terminal:root",))
    async with at_terminal(sqlite_url, Play(), name="root", file=file, access=access) as it:
        await file.counts("roles: {named: {guest: {denied_tools: [web_serach]}}}\n")
        await it.shows("did you mean web_search?")
        file.replace("roles: {named: {guest: {denied_tools: [web_search]}}}\n")
        await it.shows("[web_serach] → [web_search]")

        assert it.read.count("there is no such tool") == 1


async def test_a_rule_and_a_limit_of_a_role_that_is_not_there_are_named_with_the_change(
    sqlite_url: str, file: LiveFile
) -> None:
    access = AccessSettings(admins=("terminal:root",))
    roles = "roles: {named: {lead: {members: ['terminal:root']}}}\n"
    uses = (
        "spending: {roles: {lead: {each: {day: {usd: 1}}}}}\n"
        "permissions: {rules: {shell: {ask: lead}}}\n"
    )
    async with at_terminal(sqlite_url, Play(), name="root", file=file, access=access) as it:
        await file.counts(f"{roles}{uses}")
        await it.shows("spending.roles.lead")
        before = it.read.count("does not have")
        await file.counts(f"roles: {{named: {{}}}}\n{uses}")
        await it.shows("permissions.rules.shell asks the role lead, which roles.named does not")
        await it.shows("spending.roles.lead limits a role that roles.named does not have")
        await file.counts(f"{roles}{uses.replace('ask: lead', 'ask: leed')}")
        await it.shows("did you mean lead?")

        assert before == 0


async def test_a_skill_is_switched_off_and_on_while_the_bot_runs(
    sqlite_url: str, file: LiveFile
) -> None:
    config = config_for(sqlite_url, "http://127.0.0.1:9")
    async with open_watched(config, {}, file=file) as bot:

        async def has(*, tool: bool) -> bool:
            return (bot.registry.find("schedule_task") is not None) is tool

        await eventually(lambda: has(tool=True), "the tools of schedules")
        before = [each.name for each in bot.registry.skills]
        await file.counts("schedules: {enabled: false}\n")
        await eventually(lambda: has(tool=False), "no tools of schedules")
        await file.counts("schedules: {enabled: true}\n")
        await eventually(lambda: has(tool=True), "the tools of schedules")

        assert sorted(each.name for each in bot.registry.skills) == sorted(before)
