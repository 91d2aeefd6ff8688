"""Runs in every chat: cards with buttons, announcements, confirmations, restarts."""

import asyncio
from collections.abc import Callable
from datetime import datetime

import pytest

from bot.conversations.access import AccessSettings
from bot.subagents.limits import SubagentSettings
from bot.values import Json, RunStatus
from db import tables
from tests.fakes.anthropic_server import Call, Reply
from tests.stories.chats import Chat, ChatWay, Shown, Talk, new_chat
from tests.stories.stage import Gate, Play, call, calls, card_is_kept, change, newest_run

HELLO = {"message": "I am Alice."}


def digging(label: str = "digging", result: str = "Dug.") -> Play:
    """Return a play in which a run starts, waits at the gate, and ends."""
    return Play(
        main=[call("sessions_spawn", task="Dig", label=label), Reply(text="Started it.")],
        runs={"Dig": [call("wait_here"), Reply(text=result)]},
    )


async def spawned(chat: Chat) -> tuple[Talk, Shown]:
    """Have Alice start the run in a thread; return the thread and the card once it is at work."""
    talk = await chat.ask("alice", "Dig, please.")
    await chat.gate.held(1)
    await chat.reads(talk, "Started it.")
    return talk, await chat.card(talk, "digging")


async def asked_to_stop(chat: Chat, play: Play) -> tuple[Talk, Shown]:
    """Have the model want to stop Alice's run; return the thread and the question."""
    talk, _ = await spawned(chat)
    run = await newest_run(chat.running, "Dig")
    play.main += [call("sessions_stop", run_id=run.id), Reply(text="I asked you.")]
    await chat.write("alice", talk, "Please stop it.")
    question = await chat.reads(talk, "Shall I")
    # Then it is stored in which message it stands, as an answer in words needs.
    await chat.reads(talk, "I asked you.")
    return talk, question


async def status_of(chat: Chat) -> RunStatus:
    return (await newest_run(chat.running, "Dig")).status


async def test_a_run_has_one_card_that_is_edited_and_its_result_notifies_its_owner_alone(
    chat_way: ChatWay,
) -> None:
    async with new_chat(chat_way) as chat, chat.bot(digging()):
        talk, card = await spawned(chat)
        assert card.buttons == ("Stop", "Log", "Send")
        chat.gate.opened.set()
        result = await chat.reads(talk, "Dug.")
        over = await chat.card(talk, "digging", "completed")

        assert over == card
        assert over.edits >= 1
        assert over.buttons == ("Log",)
        assert result != card
        assert result.pings == {"alice"}
        assert chat.pings() == ["alice"]


async def test_results_of_one_turn_come_in_one_message_with_one_notification(
    chat_way: ChatWay,
) -> None:
    tasks = ("Dig the north field", "Dig the south field")
    play = Play(
        main=[
            # One after the other: the order of calls of one answer is not that of their runs.
            *(call("sessions_spawn", task=task, label=task) for task in tasks),
            Reply(text="Started both."),
        ],
        runs={
            "north": [call("wait_here"), Reply(text="Found gold.")],
            "south": [Reply(text="Found silver.")],
        },
    )
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "Dig, please.")
        await chat.reads(talk, "Started both.")
        await chat.card(talk, "south", "completed")
        assert "silver" not in str(chat.pings())
        chat.gate.opened.set()

        result = await chat.reads(talk, "Found gold.")
        assert "Found silver." in result.text
        assert result.text.index("Found gold.") < result.text.index("Found silver.")
        assert result.pings == {"alice"}
        assert chat.pings() == ["alice"]


async def test_no_one_who_wrote_within_a_minute_or_wants_silence_is_notified(
    chat_way: ChatWay,
) -> None:
    spawn = {"task": "Dig", "label": "digging"}
    play = Play(
        main=[
            call("sessions_spawn", **spawn, notify="silent"),
            Reply(text="Started it."),
        ],
        runs={"Dig": [Reply(text="Dug once.")], "Bore": [call("wait_here"), Reply(text="Bored.")]},
    )
    async with new_chat(chat_way) as chat, chat.bot(play, subagents=SubagentSettings()):
        talk = await chat.ask("alice", "Dig, please.")
        silent = await chat.reads(talk, "Dug once.")
        assert silent.pings == frozenset()

        play.main += [call("sessions_spawn", task="Bore", label="boring"), Reply(text="Again.")]
        await chat.write("alice", talk, "And bore.", mention=True)
        await chat.reads(talk, "Again.")
        await chat.gate.held(1)
        chat.gate.opened.set()
        assert (await chat.reads(talk, "Bored.")).pings == frozenset()
        assert chat.pings() == []


async def test_reports_of_a_run_are_posted_for_those_who_want_progress(chat_way: ChatWay) -> None:
    play = Play(
        main=[
            Reply(text="Hello."),
            call("sessions_spawn", task="Dig", label="digging"),
            Reply(text="Started it."),
        ],
        runs={
            "Dig": [
                call("report_progress", message="A spade is found."),
                call("report_progress", message="A hole is begun."),
                call("wait_here"),
                Reply(text="Dug."),
            ]
        },
    )
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("bob", "Hello")
        await chat.reads(talk, "Hello.")
        answer = await chat.command("alice", talk, "subagents notify", how="progress")
        assert "what it reports" in answer.text
        talk = await chat.ask("alice", "Dig, please.")
        report = await chat.reads(talk, "): A spade is found.")
        assert (report.pings, report.buttons) == (frozenset(), ())
        chat.gate.opened.set()
        await chat.reads(talk, "Dug.")
        assert not [text for text in chat.texts(talk) if "🔄" in text and "hole" in text]


async def test_the_final_answer_stands_below_the_cards_of_its_turn(chat_way: ChatWay) -> None:
    spawn = Call("sessions_spawn", {"task": "Dig", "label": "digging"})
    play = Play(
        main=[
            Reply(text="I look for a spade.\n\nIt takes a while.", calls=(Call("wait_here", {}),)),
            Reply(text="I dig now.", calls=(spawn,)),
            call("whiteboard_list", run_id="last"),
            Reply(text="All is under way."),
        ],
        runs={"Dig": [Reply(text="Dug.")]},
    )
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "Dig, please.")
        await chat.reads(talk, "I look")
        chat.gate.opened.set()
        await chat.card(talk, "digging", "completed")
        await chat.reads(talk, "All is under way.")
        await chat.reads(talk, "Dug.")

        texts = chat.texts(talk)
        at = {word: [word in text for text in texts].index(True) for word in ("digging", "under")}
        assert at["digging"] < at["under"]
        assert sum("under way" in text for text in texts) == 1
        assert not any(text.startswith("I look") for text in texts[: at["under"]])


def two_fields() -> Play:
    """Return a play in which one turn starts two runs, which wait at the gate."""
    tasks = ("Dig the north field", "Dig the south field")
    return Play(
        main=[
            calls(*(("sessions_spawn", {"task": task, "label": task}) for task in tasks)),
            Reply(text="Started both."),
        ],
        runs={word: [call("wait_here"), Reply(text="Dug.")] for word in ("north", "south")},
    )


async def test_runs_of_one_turn_share_a_card_with_buttons_for_one_and_for_all(
    chat_way: ChatWay,
) -> None:
    async with new_chat(chat_way) as chat, chat.bot(two_fields()):
        talk = await chat.ask("alice", "Dig, please.")
        await chat.gate.held(2)
        card = await chat.card(talk, "north", "2 sub-agents")
        assert await chat.card(talk, "south") == card
        assert card.buttons == ("Stop", "Stop", "Stop all")

        answer = await chat.click("bob", card, "Stop all")
        assert (answer.private, "no run" in answer.text) == (True, True)
        answer = await chat.click("alice", card, "Stop all")
        assert answer.text.count("Dig the") == 2

        over = await chat.card(talk, "2 of 2 ended", "stopped")
        assert over == card
        assert over.buttons == ("Resume", "Resume")


async def test_a_shared_card_from_before_a_restart_shows_all_of_its_runs_after_it(
    chat_way: ChatWay,
) -> None:
    play = two_fields()
    async with new_chat(chat_way) as chat:
        async with chat.bot(play):
            talk = await chat.ask("alice", "Dig, please.")
            await chat.gate.held(2)
            card = await chat.card(talk, "north", "2 sub-agents")
            for word in ("north", "south"):
                await card_is_kept(chat.running, word)
        async with chat.bot(play):
            chat.gate.opened.set()
            over = await chat.card(talk, "2 of 2 ended", "south")
            assert over == card
            assert over.buttons == ("Log", "Log")
            await chat.reads(talk, "Dug.")


async def test_a_user_talks_with_the_bot_while_a_run_works(chat_way: ChatWay) -> None:
    play = digging()
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk, _ = await spawned(chat)
        play.main.append(Reply(text="Nice weather."))
        await chat.write("alice", talk, "Meanwhile: how is the weather?")
        await chat.reads(talk, "Nice weather.")
        chat.gate.opened.set()
        await chat.reads(talk, "Dug.")


async def test_the_owner_stops_a_run_with_its_button(chat_way: ChatWay) -> None:
    async with new_chat(chat_way) as chat, chat.bot(digging()):
        talk, card = await spawned(chat)
        answer = await chat.click("alice", card, "Stop")
        await chat.card(talk, "digging", "stopped")
        await chat.reads(talk, "was stopped")

        assert answer.private
        assert "Stopping" in answer.text


async def test_the_owner_reads_the_log_and_writes_to_the_run_from_its_card(
    chat_way: ChatWay,
) -> None:
    play = digging()
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk, card = await spawned(chat)
        log = await chat.click("alice", card, "Log")
        form = (await chat.click("alice", card, "Send")).form
        sent = await chat.fill("alice", form, "Look below the barn.")
        await chat.hears("alice", "Queued")
        chat.gate.opened.set()
        await chat.reads(talk, "Dug.")

        assert log.private
        assert "wait_here" in log.text
        assert sent.private
        assert "Look below the barn." in str(play.asked[-1]["messages"])


async def test_other_users_neither_stop_nor_read_nor_write_to_a_run(chat_way: ChatWay) -> None:
    play = digging()
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk, card = await spawned(chat)
        run = await newest_run(chat.running, "Dig")
        refusals = [await chat.click("bob", card, label) for label in ("Stop", "Log")]
        send = await chat.click("bob", card, "Send")
        refusals.append(
            send if send.form is None else await chat.fill("bob", send.form, "I am Alice.")
        )
        for name, more in (("stop", {}), ("log", {}), ("info", {}), ("send", HELLO)):
            command = f"subagents {name}"
            refusals += [await chat.command("bob", talk, command, run=run.id, **more)]
        listed = await chat.command("bob", talk, "subagents list")

        assert all(refused.private for refused in refusals)
        lines = {refused.text.replace(run.id, "ID").splitlines()[0] for refused in refusals}
        assert len(lines) == 1
        assert "You have no run “ID”." in lines.pop()
        assert not any("digging" in refused.text for refused in refusals)
        assert "digging" not in listed.text
        assert await status_of(chat) is RunStatus.RUNNING
        chat.gate.opened.set()
        await chat.reads(talk, "Dug.")
        assert "I am Alice" not in str(play.asked)


async def test_an_admin_stops_the_run_of_another_user(chat_way: ChatWay) -> None:
    async with new_chat(chat_way) as chat:
        access = AccessSettings(admins=(chat.account("root"),))
        async with chat.bot(digging(), access=access):
            talk, _ = await spawned(chat)
            run = await newest_run(chat.running, "Dig")
            answer = await chat.command("root", talk, "subagents stop", run=run.id)
            result = await chat.reads(talk, "was stopped")
            await chat.card(talk, "digging", "stopped by @")

            assert "Stopping" in answer.text
            assert "It was stopped by an admin." in result.text
            assert result.pings == {"alice"}


async def test_a_command_that_is_typed_in_the_channel_is_answered_privately(
    chat_way: ChatWay,
) -> None:
    async with new_chat(chat_way) as chat, chat.bot(digging()):
        talk, _ = await spawned(chat)
        for typed, answer in (
            ("subagents list", "digging"),
            ("/subagents usage", "Your usage"),
            ("!subagents info last", "Status: running"),
            ("subagents stop nothing", "You have no run"),
        ):
            await chat.ask("alice", typed)
            await chat.hears("alice", answer)
        chat.gate.opened.set()
        await chat.reads(talk, "Dug.")

        said = str(chat.in_channel())
        assert "digging" not in said
        assert "Your usage" not in said
        assert "Status: running" not in said


async def test_every_command_answers_its_user_alone(chat_way: ChatWay) -> None:
    play = digging()
    play.runs["Shear"] = [call("wait_here"), Reply(text="Shorn.")]
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk, _ = await spawned(chat)
        run = (await newest_run(chat.running, "Dig")).id
        commands: list[tuple[str, dict[str, str], str]] = [
            ("subagents list", {}, "digging"),
            ("subagents info", {"run": run}, "Status: running"),
            ("subagents log", {"run": run}, "wait_here"),
            ("subagents send", {"run": run, "message": "Deeper."}, "Queued"),
            ("subagents usage", {}, "Your usage"),
            ("subagents spawn", {"task": "Shear"}, "Started"),
            ("subagents stop", {"run": run}, "Stopping"),
            ("retinue usage", {}, "Your usage"),
            ("retinue help", {}, "/subagents list"),
        ]
        for name, options, words in commands:
            answer = await chat.command("alice", talk, name, **options)
            assert words in answer.text, name
            assert answer.private, name
        chat.gate.opened.set()
        await chat.until(lambda: len(play.runs["Shear"]) == 0, "the second run")


async def test_a_confirmation_shows_run_and_tool_and_takes_one_answer_of_its_owner(
    chat_way: ChatWay,
) -> None:
    play = digging()
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk, question = await asked_to_stop(chat, play)
        run = await newest_run(chat.running, "Dig")
        yes, no = question.buttons
        strangers = await chat.click("bob", question, yes)
        assert await status_of(chat) is RunStatus.RUNNING
        async with asyncio.TaskGroup() as at_once:
            for _ in range(2):
                at_once.create_task(chat.click("alice", question, yes))
        await chat.hears("alice", "nothing to confirm")
        answers = chat.told("alice")
        await chat.card(talk, "digging", "stopped")
        await chat.until(lambda: not chat.again(talk, question).buttons, "the buttons to go")

        assert "sessions_stop" in question.text
        assert run.id in question.text
        assert question.pings <= {"alice"}
        assert strangers.private
        assert "nothing to confirm" in strangers.text
        assert sum("The answer follows" in answer for answer in answers) == 1
        assert sum("nothing to confirm" in answer for answer in answers) == 1
        assert no != yes


async def test_a_confirmation_that_is_answered_in_words_loses_its_buttons(
    chat_way: ChatWay,
) -> None:
    play = digging()
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk, question = await asked_to_stop(chat, play)
        await chat.write("alice", talk, "no", mention=True)
        await chat.until(lambda: not chat.again(talk, question).buttons, "the buttons to go")

        assert await status_of(chat) is RunStatus.RUNNING
        chat.gate.opened.set()


@pytest.mark.parametrize(
    "change_it",
    [
        lambda now: {"arguments": {"run_id": "all"}},
        lambda now: {"expires_at": now},
    ],
    ids=["changed", "expired"],
)
async def test_an_expired_or_changed_confirmation_is_refused(
    chat_way: ChatWay, change_it: Callable[[datetime], Json]
) -> None:
    play = digging()
    async with new_chat(chat_way) as chat, chat.bot(play):
        _, question = await asked_to_stop(chat, play)
        await change(chat.running, tables.approvals, **change_it(chat.running.upkeep.now()))
        refused = await chat.click("alice", question, question.buttons[0])

        assert refused.private
        assert "nothing to confirm" in refused.text
        assert await status_of(chat) is RunStatus.RUNNING
        chat.gate.opened.set()


async def test_a_card_and_a_form_from_before_a_restart_work_after_it(chat_way: ChatWay) -> None:
    gate = Gate()
    play = digging()
    async with new_chat(chat_way) as chat:
        async with chat.bot(play, gate=gate):
            talk, card = await spawned(chat)
            form = (await chat.click("alice", card, "Send")).form
            await card_is_kept(chat.running, "Dig")
        play.runs["Dig"] = [call("wait_here"), Reply(text="Dug after all.")]
        async with chat.bot(play, gate=gate):
            await gate.held(1)
            await chat.fill("alice", form, "Hurry.")
            await chat.hears("alice", "Queued")
            strangers = await chat.click("bob", card, "Stop")
            log = await chat.click("alice", card, "Log")
            gate.opened.set()
            await chat.reads(talk, "Dug after all.")
            over = await chat.card(talk, "digging", "completed")

            said = await chat.said(talk)
            assert "digging" not in strangers.text
            assert "wait_here" in log.text
            assert over == card
            assert [each for each in said if each.buttons] == [card]
            assert len([each for each in said if "Dug after all." in each.text]) == 1
