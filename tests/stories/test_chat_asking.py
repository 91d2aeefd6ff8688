"""Runs that ask their user in every chat: by buttons, in words, and across restarts."""

from pathlib import Path
from typing import Any

import pytest

from bot.agent.permissions import PermissionSettings
from bot.conversations.access import AccessSettings
from bot.conversations.deciding import GONE
from bot.rights.settings import RolesSettings
from bot.values import RunStatus, short
from tests.fakes.anthropic_server import Reply
from tests.stories.asking import (
    ASKS_AS_TOOL,
    PAINT,
    QUESTIONS,
    World,
    baking,
    painter,
    painting,
    painting_in_a_turn,
    told_to_runs,
    waits_again,
)
from tests.stories.chats import Chat, ChatWay, Shown, Talk, new_chat
from tests.stories.stage import call, change, newest_run

BUTTONS = ("Allow once", "Allow for this run", "Always, for 30 days", "Deny")


async def asked(chat: Chat, words: str = "asks:") -> tuple[Talk, Shown]:
    """Have Alice ask for something; return the thread and the question of a run there."""
    talk = await chat.ask("alice", "Please do it.")
    question = await chat.reads(talk, words)
    await chat.until(lambda: chat.again(talk, question).buttons, "the buttons")
    return talk, chat.again(talk, question)


async def settled(chat: Chat, talk: Talk, question: Shown, note: str) -> str:
    """Wait until a question has no buttons and shows its outcome; return its text."""

    def done() -> bool:
        now = chat.again(talk, question)
        return not now.buttons and note in now.text

    await chat.until(done, f"{note!r} below the question")
    return chat.again(talk, question).text


@pytest.mark.parametrize(
    ("by", "answer", "done"),
    [
        ("button", "Allow once", ["fence"]),
        ("button", "Allow for this run", ["fence", "gate"]),
        ("button", "Deny", []),
        ("words", "yes", ["fence"]),
        ("words", "all", ["fence", "gate"]),
        ("words", "no", []),
    ],
)
async def test_the_owner_allows_or_denies_a_call_by_button_or_in_words(
    chat_way: ChatWay, tmp_path: Path, by: str, answer: str, done: list[str]
) -> None:
    world, gate = World(), call("paint", what="gate")
    further = [gate] if len(done) == 2 else []
    play = painting(PAINT, *further, Reply(text="That is all."))
    async with new_chat(chat_way) as chat, chat.bot(play, **painter(tmp_path, world)):
        talk, question = await asked(chat)
        run = await newest_run(chat.running, "Paint")
        await chat.card(talk, "painting", "waiting for you")
        before = list(world.done)
        if by == "button":
            assert (await chat.click("alice", question, answer)).private
        else:
            await chat.write("alice", talk, answer)
        await chat.reads(talk, "That is all.")
        shown = await settled(chat, talk, question, chat.name("alice"))

        assert before == []
        assert question.buttons == BUTTONS
        for part in (short(run.id), "painter", 'paint(what="fence")'):
            assert part in question.text
        assert world.done == done
        assert sum("asks: may it" in each.text for each in await chat.said(talk)) == 1
        assert set(chat.pings()) == {"alice"}
        if by == "button":
            assert answer in shown
        if not done:
            assert "The user said no: paint was not called" in told_to_runs(play)


async def test_another_user_answers_neither_by_button_nor_in_words_and_an_admin_may_deny(
    chat_way: ChatWay, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT, Reply(text="That is all."))
    async with new_chat(chat_way) as chat:
        access = AccessSettings(admins=(chat.account("root"),))
        async with chat.bot(play, access=access, **painter(tmp_path, world)):
            talk, question = await asked(chat)
            refused = [await chat.click("bob", question, label) for label in BUTTONS]
            play.main.append(Reply(text="Hello Bob."))
            await chat.write("bob", talk, "yes", mention=True)
            await chat.reads(talk, "Hello Bob.")
            still, before = await newest_run(chat.running, "Paint"), list(world.done)
            buttons = chat.again(talk, question).buttons
            only = await chat.click("root", question, "Allow once")
            await chat.click("root", question, "Deny")
            await chat.reads(talk, "That is all.")
            await settled(chat, talk, question, "Deny")

            assert all(each.private for each in refused)
            # The same as for a question that does not exist.
            assert {line for each in refused for line in each.text.splitlines()} == {GONE}
            assert still.status is RunStatus.WAITING_APPROVAL
            assert (before, buttons) == ([], BUTTONS)
            assert "Only its owner can allow this." in only.text
            assert world.done == []


async def test_a_question_without_an_answer_in_time_is_a_no_and_shows_it(
    chat_way: ChatWay, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT, Reply(text="Nobody was there."))
    async with new_chat(chat_way) as chat, chat.bot(play, **painter(tmp_path, world)):
        talk, question = await asked(chat)
        await change(chat.running, QUESTIONS, expires_at=chat.running.upkeep.now())
        await chat.reads(talk, "Nobody was there.")
        await settled(chat, talk, question, "No answer came in time.")

        assert "did not answer within 10 minutes" in told_to_runs(play)
        assert world.done == []


@pytest.mark.parametrize(
    ("by", "answer"),
    [
        ("button", "Plum"),
        ("message", "Cherry, please"),
        ("command", "Cherry"),
        ("button", "Skip"),
    ],
)
async def test_a_run_continues_with_the_answer_of_its_user(
    chat_way: ChatWay, by: str, answer: str
) -> None:
    play = baking()
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk, question = await asked(chat, "Which cake?")
        await chat.card(talk, "baking", "waiting for you")
        if by == "button":
            await chat.click("alice", question, answer)
        elif by == "message":
            await chat.write("alice", talk, answer)
        else:
            run = (await newest_run(chat.running, "Bake")).id
            sent = await chat.command("alice", talk, "subagents send", run=run, message=answer)
            assert "has your answer and goes on" in sent.text
        await chat.reads(talk, "Baked.")
        shown = await settled(chat, talk, question, answer)

        assert question.buttons == ("Apple", "Plum", "Skip")
        expected = "skipped the question" if answer == "Skip" else f"answered:\n{answer}"
        assert expected in told_to_runs(play)
        assert chat.name("alice") in shown


async def test_a_run_that_is_stopped_while_it_waits_closes_its_question(
    chat_way: ChatWay, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT)
    async with new_chat(chat_way) as chat, chat.bot(play, **painter(tmp_path, world)):
        talk, question = await asked(chat)
        card = await chat.card(talk, "painting", "waiting for you")
        await chat.click("alice", card, "Stop")
        await chat.card(talk, "painting", "stopped")
        await settled(chat, talk, question, "The run is over")

        assert world.done == []


@pytest.mark.parametrize("by", ["button", "words"])
async def test_a_question_from_before_a_restart_takes_one_answer_after_it(
    chat_way: ChatWay, tmp_path: Path, by: str
) -> None:
    world, play = World(), painting(PAINT, Reply(text="That is all."))
    kit: dict[str, Any] = painter(tmp_path, world)
    async with new_chat(chat_way) as chat:
        async with chat.bot(play, **kit):
            talk, question = await asked(chat)
            await chat.card(talk, "painting", "waiting for you")
            run = await newest_run(chat.running, "Paint")
        async with chat.bot(play, **kit):
            if by == "button":
                await waits_again(chat.running, run)
                await chat.click("alice", question, "Allow once")
            else:
                await chat.write("alice", talk, "yes")
            await chat.reads(talk, "That is all.")
            shown = await settled(chat, talk, question, chat.name("alice"))

            assert world.done == ["fence"]
            assert question.text.splitlines()[0] in shown
            assert sum("asks: may it" in each.text for each in await chat.said(talk)) == 1


async def test_an_agent_that_is_called_as_a_tool_asks_while_the_turn_waits(
    chat_way: ChatWay, tmp_path: Path
) -> None:
    world, play = World(), painting_in_a_turn(PAINT, Reply(text="Painted it."))
    kit = painter(tmp_path, world, ASKS_AS_TOOL)
    async with new_chat(chat_way) as chat, chat.bot(play, **kit):
        talk, question = await asked(chat)
        run = await newest_run(chat.running, "Paint")
        before = [each.text for each in await chat.said(talk)]
        await chat.click("alice", question, "Allow once")
        await chat.reads(talk, "It is painted.")
        await settled(chat, talk, question, "Allow once")

        assert (run.status, run.mode) == (RunStatus.WAITING_APPROVAL, "sync")
        assert not any("It is painted." in text for text in before)
        assert world.done == ["fence"]


async def test_a_member_of_the_role_that_a_rule_names_decides_and_the_owner_sees_who(
    chat_way: ChatWay, tmp_path: Path
) -> None:
    world = World()
    rules = PermissionSettings.model_validate({"rules": {"paint": {"ask": "lead"}}})
    kit = painter(tmp_path, world, "approvals: ask")
    async with new_chat(chat_way) as chat:
        named = {"lead": {"members": [chat.account("root")]}}
        roles = RolesSettings.model_validate({"named": named})
        play = painting(PAINT, Reply(text="Painted."))
        async with chat.bot(play, permissions=rules, roles=roles, **kit):
            talk, question = await asked(chat, "asks: may it use")
            owner = await chat.click("alice", question, "Allow once")
            stranger = await chat.click("bob", question, "Allow once")
            before = list(world.done)
            await chat.click("root", question, "Always, for 30 days")
            await chat.reads(talk, "Painted.")
            shown = await settled(chat, talk, question, chat.name("root"))
            grants = await chat.command("alice", talk, "retinue grants")
            revoked = await chat.command("alice", talk, "retinue grants", tool="all")
            none = await chat.command("alice", talk, "retinue grants")

            assert "It takes the role `lead`" in question.text
            assert "A rule gives this decision to the role `lead`." in owner.text
            assert stranger.text
            assert before == []
            assert world.done == ["fence"]
            assert "Always, for 30 days" in shown
            assert "paint: ask:lead" in grants.text
            assert "allowed by another user" in grants.text
            assert "I ask again" in revoked.text
            assert "You have allowed nothing" in none.text
