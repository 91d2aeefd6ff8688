"""Runs in Discord: cards with buttons, announcements, confirmations, restarts."""

from collections.abc import Callable
from datetime import datetime

import pytest

from bot.platforms.discord.answers import SENT_PRIVATELY
from bot.values import Json, RunStatus
from db import tables
from tests.fakes.anthropic_server import Reply
from tests.fakes.discord.interactions import Interaction
from tests.fakes.discord.things import Channel, Message
from tests.stories.on_discord import Scene, new_server, on_discord
from tests.stories.stage import Gate, Play, call, card_is_kept, change, newest_run

#: Discord knows of no database: one kind is enough here, and `test_discord_talk` has the other.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def digging(label: str = "digging", result: str = "Dug.") -> Play:
    """Return a play in which a run starts, waits at the gate, and ends."""
    return Play(
        main=[call("sessions_spawn", task="Dig", label=label), Reply(text="Started it.")],
        runs={"Dig": [call("wait_here"), Reply(text=result)]},
    )


async def spawned(it: Scene) -> tuple[Channel, Message]:
    """Have Alice start the run in a thread; return the thread and the card once it is at work."""
    server = it.server
    asked = await it.discord.say(server.alice, server.channel, "Dig, please.", mention=True)
    thread = await it.thread_of(asked)
    await it.gate.held(1)
    await it.reads(thread, "Started it.")
    return thread, await it.card(thread, "digging")


async def test_a_run_has_one_card_that_moves_and_its_result_pings_its_owner_only(
    database_url: str,
) -> None:
    async with new_server() as server, on_discord(database_url, server, digging()) as it:
        thread, card = await spawned(it)
        assert card.buttons() == ["Stop", "Log", "Send"]
        it.gate.opened.set()
        result = await it.reads(thread, "Dug.")
        over = await it.card(thread, "digging", "completed")

        assert over is card
        assert card.edits >= 1
        assert card.buttons() == ["Log"]
        assert result is not card
        assert result.pings == {server.alice.id}
        assert it.pings() == [server.alice.id]


async def test_the_person_goes_on_talking_while_a_run_works(database_url: str) -> None:
    play = digging()
    async with new_server() as server, on_discord(database_url, server, play) as it:
        thread, _ = await spawned(it)
        play.main.append(Reply(text="Nice weather."))
        await it.discord.say(server.alice, thread, "Meanwhile: how is the weather?")
        await it.reads(thread, "Nice weather.")
        it.gate.opened.set()
        await it.reads(thread, "Dug.")


async def test_the_owner_stops_a_run_with_its_button_and_gets_what_there_is(
    database_url: str,
) -> None:
    async with new_server() as server, on_discord(database_url, server, digging()) as it:
        thread, card = await spawned(it)
        answer = await it.discord.click(server.alice, card, "Stop")
        await answer.done()
        await it.card(thread, "digging", "stopped")
        await it.reads(thread, "was stopped")

        assert answer.ephemeral
        assert "Stopping" in answer.text()


async def test_log_and_send_work_from_the_card(database_url: str) -> None:
    play = digging()
    async with new_server() as server, on_discord(database_url, server, play) as it:
        thread, card = await spawned(it)
        log = await it.discord.click(server.alice, card, "Log")
        await log.done()
        asked = await it.discord.click(server.alice, card, "Send")
        await asked.done()
        sent = await it.discord.submit(server.alice, asked.modal, "Look below the barn.")
        await sent.done()
        it.gate.opened.set()
        await it.reads(thread, "Dug.")

        assert log.ephemeral
        assert "wait_here" in log.text()
        assert sent.ephemeral
        assert "Look below the barn." in str(play.asked[-1]["messages"])


async def test_nobody_else_stops_reads_or_tells_a_run_by_button_or_by_command(
    database_url: str,
) -> None:
    play = digging()
    async with new_server() as server, on_discord(database_url, server, play) as it:
        thread, card = await spawned(it)
        run = await newest_run(it.bot, "Dig")
        refusals = [await it.discord.click(server.bob, card, label) for label in ("Stop", "Log")]
        asked = await it.discord.click(server.bob, card, "Send")
        await asked.done()
        if asked.modal is not None:
            refusals.append(await it.discord.submit(server.bob, asked.modal, "I am Alice."))
        else:
            refusals.append(asked)
        for name in ("stop", "log", "info"):
            command = f"subagents {name}"
            refusals.append(await it.discord.slash(server.bob, thread, command, run=run.id))
        refusals.append(
            await it.discord.slash(
                server.bob, thread, "subagents send", run=run.id, message="I am Alice."
            )
        )
        for refused in refusals:
            await refused.done()
        listed = await it.discord.slash(server.bob, thread, "subagents list")
        await listed.done()
        choices = await it.discord.autocomplete(server.bob, thread, "subagents stop", run="")
        own = await it.discord.autocomplete(server.alice, thread, "subagents stop", run="")

        assert all(refused.ephemeral for refused in refusals)
        assert len({refused.text().replace(run.id, "ID") for refused in refusals}) <= 2
        assert not any("digging" in refused.text() for refused in refusals)
        assert "digging" not in listed.text()
        assert choices == []
        assert [value for _, value in own] == [run.id]
        assert (await newest_run(it.bot, "Dig")).status is RunStatus.RUNNING
        it.gate.opened.set()
        await it.reads(thread, "Dug.")
        assert "I am Alice" not in str(play.asked)


async def test_an_admin_by_role_stops_a_run_of_somebody_else(database_url: str) -> None:
    async with new_server() as server:
        role = server.discord.add_role(server.guild, "farmers")
        server.guild.members[server.root.id].roles.append(role)
        async with on_discord(
            database_url, server, digging(), settings={"admin_roles": (str(role.id),)}
        ) as it:
            thread, card = await spawned(it)
            answer = await it.discord.click(server.root, card, "Stop")
            await answer.done()
            result = await it.reads(thread, "was stopped")
            await it.card(thread, "digging", "stopped by @")

            assert "Stopping" in answer.text()
            assert f"Stopped by {server.root.mention}." in result.text()
            assert result.pings == {server.alice.id}


async def test_a_command_that_is_typed_in_a_channel_is_answered_in_private(
    database_url: str,
) -> None:
    async with new_server() as server, on_discord(database_url, server, digging()) as it:
        thread, _ = await spawned(it)
        run, private = await newest_run(it.bot, "Dig"), it.discord.dm(server.alice)
        for typed, answer in (
            ("subagents list", "digging"),
            ("/subagents usage", "Your usage"),
            ("!subagents info last", "Status: running"),
            ("subagents stop nothing", "You have no run"),
            (f"/subagents stop {run.id}", "Stopping"),
        ):
            await it.discord.say(server.alice, server.channel, typed, mention=True)
            await it.reads(private, answer)

        await it.discord.until(lambda: len(it.said(server.channel)) == 5, "five notes")
        assert {each.text() for each in it.said(server.channel)} == {SENT_PRIVATELY}
        await it.reads(thread, "was stopped")


async def test_every_command_answers_its_person_alone(database_url: str) -> None:
    play = digging()
    play.runs["Shear"] = [call("wait_here"), Reply(text="Shorn.")]
    async with new_server() as server, on_discord(database_url, server, play) as it:
        thread, _ = await spawned(it)
        run = await newest_run(it.bot, "Dig")
        answers: dict[str, Interaction] = {}
        for name, options in (
            ("subagents list", {}),
            ("subagents info", {"run": run.id}),
            ("subagents log", {"run": run.id}),
            ("subagents send", {"run": run.id, "message": "Deeper."}),
            ("subagents usage", {}),
            ("subagents spawn", {"task": "Shear", "label": "second"}),
            ("subagents stop", {"run": run.id}),
            ("retinue usage", {}),
            ("retinue help", {}),
            ("retinue new", {}),
        ):
            slash = await it.discord.slash(server.alice, thread, name, guest=False, **options)
            answers[name] = await slash.done()
        await it.card(thread, "second")
        it.gate.opened.set()
        await it.reads(thread, "Shorn.")

        said = {
            "subagents list": "digging",
            "subagents info": "Status: running",
            "subagents log": "wait_here",
            "subagents send": "Queued",
            "subagents usage": "Your usage",
            "subagents spawn": "Started",
            "subagents stop": "Stopping",
            "retinue usage": "Your usage",
            "retinue help": "/subagents list",
            "retinue new": "new conversation",
        }
        for name, words in said.items():
            assert words in answers[name].text(), name
            assert answers[name].ephemeral, name


async def asked_to_stop(it: Scene, play: Play) -> tuple[Channel, Message]:
    """Have the model want to stop Alice's run; return the thread and the question."""
    thread, _ = await spawned(it)
    run = await newest_run(it.bot, "Dig")
    play.main += [call("sessions_stop", run_id=run.id), Reply(text="I asked you.")]
    await it.discord.say(it.server.alice, thread, "Please stop it.")
    return thread, await it.reads(thread, "Shall I")


async def test_a_confirmation_names_run_tool_and_arguments_and_takes_one_answer_of_its_owner(
    database_url: str,
) -> None:
    play = digging()
    async with new_server() as server, on_discord(database_url, server, play) as it:
        thread, question = await asked_to_stop(it, play)
        run = await newest_run(it.bot, "Dig")
        assert "sessions_stop" in question.text()
        assert run.id in question.text()
        assert question.pings <= {server.alice.id}
        yes, no = question.buttons()
        strangers = await it.discord.click(server.bob, question, yes)
        await strangers.done()
        assert (await newest_run(it.bot, "Dig")).status is RunStatus.RUNNING
        clicks = [await it.discord.click(server.alice, question, yes) for _ in range(2)]
        answers = [(await click.done()).text() for click in clicks]
        await it.card(thread, "digging", "stopped")
        await it.discord.until(lambda: not question.buttons(), "the buttons to go")

        assert strangers.ephemeral
        assert "nothing to confirm" in strangers.text()
        assert sum("The answer follows" in answer for answer in answers) == 1
        assert sum("nothing to confirm" in answer for answer in answers) == 1
        assert no != yes


@pytest.mark.parametrize(
    "change_it",
    [
        lambda now: {"arguments": {"run_id": "all"}},
        lambda now: {"expires_at": now},
    ],
    ids=["changed", "expired"],
)
async def test_an_expired_or_changed_confirmation_is_refused(
    database_url: str, change_it: Callable[[datetime], Json]
) -> None:
    play = digging()
    async with new_server() as server, on_discord(database_url, server, play) as it:
        _, question = await asked_to_stop(it, play)
        await change(it.bot, tables.approvals, **change_it(it.bot.upkeep.now()))
        refused = await it.discord.click(server.alice, question, question.buttons()[0])
        await refused.done()

        assert refused.ephemeral
        assert "nothing to confirm" in refused.text()
        assert (await newest_run(it.bot, "Dig")).status is RunStatus.RUNNING
        it.gate.opened.set()


async def test_a_card_from_before_a_restart_is_clicked_and_goes_on_in_its_message(
    database_url: str,
) -> None:
    gate = Gate()
    play = digging()
    async with new_server() as server:
        async with on_discord(database_url, server, play, gate=gate) as it:
            thread, card = await spawned(it)
            asked = await it.discord.click(server.alice, card, "Send")
            await asked.done()
            await card_is_kept(it.bot, "Dig")
        play.runs["Dig"] = [call("wait_here"), Reply(text="Dug after all.")]
        async with on_discord(database_url, server, play, gate=gate) as it:
            await gate.held(1)
            sent = await it.discord.submit(server.alice, asked.modal, "Hurry.")
            await sent.done()
            strangers = await it.discord.click(server.bob, card, "Stop")
            await strangers.done()
            log = await it.discord.click(server.alice, card, "Log")
            await log.done()
            gate.opened.set()
            await it.reads(thread, "Dug after all.")
            over = await it.card(thread, "digging", "completed")

            assert "Queued" in sent.text()
            assert "digging" not in strangers.text()
            assert "wait_here" in log.text()
            assert over is card
            cards = [each for each in it.said(thread) if each.buttons()]
            assert cards == [card]
            results = [each for each in it.said(thread) if "Dug after all." in each.text()]
            assert len(results) == 1


async def test_the_text_of_a_run_can_do_nothing_to_the_room(database_url: str) -> None:
    evil = (
        "@everyone @here <@&1> <@2> [sheep.example](https://evil.example) </subagents stop:1> "
        "```\n@everyone\n``` " + "https://evil.example/ " * 3 + "\u202e gnirts"
    )
    play = digging(result=evil)
    play.main[0] = call("sessions_spawn", task="Dig", label="digging @everyone <@2> ```")
    play.main[1] = Reply(text=f"Started it. {evil}")
    async with new_server() as server, on_discord(database_url, server, play) as it:
        asked = await it.discord.say(server.alice, server.channel, "Dig.", mention=True)
        thread = await it.thread_of(asked)
        await it.gate.held(1)
        await it.reads(thread, "Started it.")
        await it.card(thread, "digging")
        it.gate.opened.set()
        await it.card(thread, "digging", "completed")
        await it.discord.until(it.pings, "the announcement")

        assert it.pings() == [server.alice.id]
        texts = "\n".join(each.text() for each in it.said(thread))
        assert "](" not in texts
        assert "[sheep.example] (<https://evil.example>)" in texts
        sent = [each for each in it.discord.sent if each.path.endswith("/messages")]
        assert all(each.json.get("flags", 0) & 4 for each in sent if each.json.get("content"))
