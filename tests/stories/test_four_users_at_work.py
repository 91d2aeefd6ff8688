"""Four users in one thread: runs, files, new conversations, models, data, restarts."""

import json
from collections import Counter

from sqlalchemy import func, select

from bot.agent.settings import AgentSettings
from bot.conversations.access import AccessSettings
from bot.subagents.limits import SubagentSettings
from bot.values import Json, RunStatus, short
from db import tables
from tests.fakes.anthropic_server import Reply
from tests.fakes.documents import pdf
from tests.stories.chats import ChatWay, new_chat
from tests.stories.stage import ALICE, BOB, PLATFORM, Gate, Play, call, calls, said, stage
from tests.stories.test_chat_data import copy_of, stored
from tests.stories.test_chat_threads import people_in
from tests.stories.test_four_users import (
    CAROL,
    DAVE,
    FURTHER,
    THREAD,
    USERS,
    after_hello,
    grown,
    met,
    shared_part,
    speaker,
)

SPAWN = "sessions_spawn"


# --- runs -------------------------------------------------------------------------------------


async def test_the_runs_of_each_user_have_a_card_buttons_and_a_notification_of_their_own(
    chat_way: ChatWay,
) -> None:
    owners = USERS[:3]
    play = after_hello()
    play.runs = {
        f"field of {user}": [call("wait_here"), Reply(text=f"{user}: dug.")] for user in owners
    }
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        cards = {}
        for number, user in enumerate(owners, 1):
            spawn = {"task": f"Dig the field of {user}", "label": f"dig-{user}"}
            play.main += [call(SPAWN, **spawn), Reply(text=f"Begun for {user}.")]
            await chat.write(user, talk, "Dig!", mention=True)
            await chat.reads(talk, f"Begun for {user}.")
            await chat.gate.held(number)
            cards[user] = await chat.card(talk, f"dig-{user}")
        assert len({card.key for card in cards.values()}) == 3

        for owner, card in cards.items():
            for user in USERS:
                if user != owner:
                    refused = await chat.click(user, card, "Stop")
                    assert refused.private
                    assert "You have no run" in refused.text
        await chat.click("bob", cards["bob"], "Stop")
        await chat.card(talk, "dig-bob", "stopped")
        chat.gate.opened.set()
        for user in ("alice", "carol"):
            assert (await chat.reads(talk, f"{user}: dug.")).pings == {user}
        assert (await chat.reads(talk, "was stopped")).pings == {"bob"}
        assert Counter(chat.pings()) == Counter(owners)


async def test_the_queue_of_one_user_delays_no_other(database_url: str) -> None:
    fields = ("north", "south", "east", "west")
    play = Play(runs={field: [call("wait_here"), Reply(text="Dug.")] for field in fields})
    one = SubagentSettings(max_concurrent_per_user=1)
    async with stage(database_url, play, subagents=one) as it:
        for user, field in zip((ALICE, ALICE, BOB, CAROL), fields, strict=True):
            await it.command(user, f"/subagents spawn Dig {field}", THREAD)
        await it.gate.held(3)

        assert (await it.run_of("south")).status is RunStatus.QUEUED
        for field in ("north", "east", "west"):
            assert (await it.run_of(field)).status is RunStatus.RUNNING
        it.gate.opened.set()
        for field in fields:
            await it.outlet.announced((await it.run_of(field)).id)


async def test_a_name_of_a_run_means_ones_own_and_an_admin_stops_any(database_url: str) -> None:
    access = AccessSettings(admins=(f"{PLATFORM}:dave",))
    play = Play(runs={"Dig": [call("wait_here") for _ in range(3)]})
    async with stage(database_url, play, access=access) as it:
        for user in (ALICE, BOB, CAROL):
            await it.command(user, f"/subagents spawn --label dig Dig for {user.account}", THREAD)
        await it.gate.held(3)

        async def at_work() -> list[str]:
            found = [await it.run_of(f"for {name}") for name in ("alice", "bob", "carol")]
            return [run.task.split()[-1] for run in found if run.status is RunStatus.RUNNING]

        await it.command(BOB, "/subagents stop dig", THREAD)
        await it.ended("for bob", RunStatus.CANCELLED)
        assert await at_work() == ["alice", "carol"]
        await it.command(CAROL, "/subagents stop all", THREAD)
        await it.ended("for carol", RunStatus.CANCELLED)
        assert await at_work() == ["alice"]
        hers = await it.run_of("for alice")
        for typed in ("dig", "last", "#1", short(hers.id), hers.id):
            refused = await it.command(CAROL, f"/subagents stop {typed}", THREAD)
            assert "Stopping" not in refused.text
        assert await at_work() == ["alice"]
        await it.command(DAVE, f"/subagents stop {short(hers.id)}", THREAD)
        assert (await it.outlet.announced(hers.id)).owner == ALICE
        async with it.bot.database.snapshot() as tx:
            columns = (tables.audit.c.action, tables.audit.c.user_id, tables.audit.c.owner_id)
            audited = await tx.execute(select(*columns).where(tables.audit.c.action == "stop"))
        assert {tuple(row) for row in audited} == {
            ("stop", BOB.key, BOB.key),
            ("stop", CAROL.key, CAROL.key),
            ("stop", DAVE.key, ALICE.key),
        }


# --- files ------------------------------------------------------------------------------------


async def test_a_document_of_one_user_is_read_for_a_second_and_sent_for_a_third(
    chat_way: ChatWay,
) -> None:
    content = pdf("Feed the hens at nine")
    play = Play(
        main=[
            Reply(text="I have it."),
            calls(("attachment_read", {"name": "plan.pdf"})),
            Reply(text="At nine."),
            call("file_send", paths=["inbox/plan.pdf"]),
            Reply(text="Here it is."),
        ]
    )
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        files = [("plan.pdf", "application/pdf", content)]
        talk = await chat.ask("bob", "Here is our plan.", files=files)
        await chat.reads(talk, "I have it.")
        await chat.write("carol", talk, "When do we feed them?", mention=True)
        await chat.reads(talk, "At nine.")
        await chat.write("dave", talk, "Send it to me.", mention=True)
        await chat.reads(talk, "Here it is.")

        assert "Feed the hens at nine" in said(play.asked[2]["messages"][-1])
        assert chat.files(talk) == [("plan.pdf", content)]
        assert "Feed the hens at nine" in str(shared_part(play.asked[3]))


async def test_what_a_user_has_in_direct_messages_is_out_of_reach_in_the_thread(
    chat_way: ChatWay,
) -> None:
    secret = "4711 is the code of the safe"
    play = Play(
        main=[
            call("file_write", path="secret.md", text=secret),
            Reply(text="Written."),
            Reply(text="Hello, Alice."),
        ]
    )
    reaches = calls(
        ("file_list", {}),
        ("file_read", {"path": "secret.md"}),
        ("file_read", {"path": "../own/secret.md"}),
        ("file_read", {"path": "inbox/diary.txt"}),
        ("attachment_read", {"name": "diary.txt"}),
        ("grep", {"pattern": "4711"}),
        ("conversation_search", {"query": "4711"}),
        ("file_send", {"paths": ["secret.md"]}),
    )
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        private = await chat.ask_privately("alice", f"Write this down: {secret}")
        await chat.reads(private, "Written.")
        talk = await met(chat)
        for user in ("bob", "alice"):
            play.main += [reaches, Reply(text=f"Nothing for {user}.")]
            await chat.write(user, talk, "What is the code of Alice?", mention=True)
            await chat.reads(talk, f"Nothing for {user}.")

            results = play.asked[-1]["messages"][-1]["content"]
            assert len(results) == len(reaches.calls)
            assert secret not in str(results)
        assert chat.files(talk) == []


# --- conversations ----------------------------------------------------------------------------


async def test_a_bystander_begins_a_new_conversation_while_others_work_and_wait(
    chat_way: ChatWay,
) -> None:
    play = after_hello(call("wait_here"), Reply(text="For Bob."), Reply(text="For Carol."))
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        await chat.write("alice", talk, "Count the hens.", mention=True)
        await chat.gate.held(1)
        for user in ("bob", "carol"):
            await chat.write(user, talk, f"And {user}?", mention=True)
            await chat.stored(f"And {user}?")
        await chat.write("dave", talk, "/new", mention=True)
        await chat.reads(talk, "ave began a new conversation.")
        await chat.reads(talk, "For Carol.")
        play.main += [Reply(text="Three hens."), Reply(text="For Dave."), Reply(text="All of it.")]
        chat.gate.opened.set()
        await chat.reads(talk, "Three hens.")
        await chat.write("dave", talk, "What do you know?", mention=True)
        await chat.reads(talk, "For Dave.")
        await chat.stored("For Dave.")

        new = [words for _, words in people_in(play.asked[5])]
        assert new == ["And bob?", "And carol?", "What do you know?"]
        for body in (*play.asked[2:4], play.asked[5]):
            assert "is here." not in str(body["messages"])
            assert "hens" not in str(body["messages"])
        assert [words for _, words in people_in(play.asked[4])][-1] == "Count the hens."

        await chat.write("alice", talk, "/new undo", mention=True)
        await chat.reads(talk, "lice went back to the conversation before.")
        await chat.write("carol", talk, "And now?", mention=True)
        await chat.reads(talk, "All of it.")
        told = "\n".join(map(said, shared_part(play.asked[6])))
        words = ["bob is here.", "Count the hens.", "Three hens.", "And bob?", "For Bob."]
        words += ["And carol?", "For Carol.", "What do you know?", "For Dave.", "And now?"]
        places = [told.index(each) for each in words]
        assert places == sorted(places)
        assert all(told.count(each) == 1 for each in words)
        numbers = dict(people_in(play.asked[6]))
        assert numbers["u2"] == "And bob?"
        assert numbers["u3"] == "And now?"
        assert numbers["u4"] == "What do you know?"


async def test_a_model_is_chosen_for_ones_own_turns_alone(chat_way: ChatWay) -> None:
    play = after_hello(*(Reply(text=f"For {user}.") for user in ("carol", "bob", "alice")))
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        usual, other = play.asked[0]["model"], "claude-haiku-5-5"
        await chat.write("bob", talk, f"/model {other}", mention=True)
        await chat.until(
            lambda: "answers here" in str([*chat.texts(talk), *chat.told("bob")]), "the choice"
        )
        for user in ("carol", "bob", "alice"):
            await chat.write(user, talk, f"I am {user}.", mention=True)
            await chat.reads(talk, f"For {user}.")

        assert [speaker(body) for body in play.asked] == ["u1", "u3", "u2", "u1"]
        assert [body["model"] for body in play.asked] == [usual, usual, other, usual]


async def test_a_summary_is_paid_by_its_turn_and_leaves_the_numbers_as_they_are(
    database_url: str,
) -> None:
    long = "The hens are fine. " * 400
    answers = ["One.", "Two.", "Three.", "They spoke of hens.", "Four.", "Five.", "Six."]
    play = Play(main=[Reply(text=each) for each in answers])
    small = AgentSettings(context_tokens=10_000, compact_at=0.4)
    four = (ALICE, CAROL, DAVE, BOB)
    async with stage(database_url, play, agent=small) as it:
        texts = [f"First: {long}", "I am Carol.", "I am Dave.", f"Fourth: {long}"]
        texts += ["Who am I?", "And I?"]
        for number, (user, text) in enumerate(zip((*four, DAVE, CAROL), texts, strict=True), 1):
            await it.say(user, text, THREAD)
            await it.outlet.replied(number)
        async with it.bot.database.snapshot() as tx:
            tokens = func.sum(tables.turns.c.input_tokens + tables.turns.c.output_tokens)
            turns = select(tables.turns.c.user_id, tokens, func.count()).group_by("user_id")
            paid = {row[0]: row[1] / row[2] for row in await tx.execute(turns)}

    summary, *later = play.asked[3:]
    assert "You summarise" in str(summary["system"])
    assert 'from="u1"' in said(summary["messages"][0])
    assert [speaker(body) for body in later] == ["u4", "u3", "u2"]
    assert people_in(later[-1])[-3:] == [
        ("u4", texts[3].strip()),
        ("u3", texts[4]),
        ("u2", texts[5]),
    ]
    assert all("They spoke of hens." in str(body["messages"]) for body in later)
    assert "First:" not in str(later)
    grown(Play(asked=later))
    assert paid[BOB.key] == 2 * paid[ALICE.key]
    assert paid[ALICE.key] == paid[CAROL.key] == paid[DAVE.key] > 0


# --- data -------------------------------------------------------------------------------------


async def test_a_user_is_forgotten_and_the_others_keep_their_words_and_numbers(
    chat_way: ChatWay,
) -> None:
    answers = ("Zebras, I see.", "Foxes, I see.", "I know of foxes.", "Welcome.")
    play = after_hello(*(Reply(text=each) for each in answers))
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        for user, text, answer in (
            ("dave", "My zebra has stripes.", answers[0]),
            ("carol", "My fox is red.", answers[1]),
        ):
            await chat.write(user, talk, text, mention=True)
            await chat.reads(talk, answer)
        before = people_in(play.asked[-1])
        await chat.command("dave", talk, "retinue forget", whom="me yes")
        assert "My zebra" not in await stored(chat.running.database)
        await chat.write("bob", talk, "What do you know?", mention=True)
        await chat.reads(talk, answers[2])
        await chat.write("dave", talk, "I am new here.", mention=True)
        await chat.reads(talk, answers[3])

        kept = [each for each in before if each[0] != "u4"]
        newest = ("u2", "What do you know?")
        assert people_in(play.asked[-2]) == [*kept, newest]
        assert "dave" not in str(shared_part(play.asked[-2])).casefold()
        # The number is not given again.
        assert people_in(play.asked[-1]) == [*kept, newest, ("u5", "I am new here.")]


async def test_the_copy_for_a_user_holds_no_word_of_the_others(chat_way: ChatWay) -> None:
    play = after_hello(Reply(text="For Carol."), Reply(text="For Bob."))
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        for user, answer in (("carol", "For Carol."), ("bob", "For Bob.")):
            await chat.write(user, talk, f"{user} has a question.", mention=True)
            await chat.reads(talk, answer)
        await chat.command("carol", talk, "retinue export")
        copy = copy_of(chat, "carol")

        messages = [each["text"] for each in json.loads(copy["messages.json"])]
        assert messages == ["carol is here.", "carol has a question.", "For Carol."]
        whole = str(copy)
        for user in ("alice", "bob", "dave"):
            assert f"{user} is here." not in whole
            assert chat.account(user).rpartition(":")[2] not in whole
        assert "bob has" not in whole
        assert "For Bob." not in whole


# --- restarts ---------------------------------------------------------------------------------


async def test_after_a_restart_those_who_worked_and_waited_are_answered_once_in_order(
    chat_way: ChatWay,
) -> None:
    asked: list[Json] = []

    def script(body: Json) -> Reply:
        asked.append(body)
        if people_in(body)[-1][1] == "Count the hens." and "tool_result" not in str(body):
            return call("wait_here")
        number = len([each for each in asked if "Hello" in str(each)])
        return Reply(text="Hello, Alice." if number == 1 else f"For {speaker(body)}.")

    gate = Gate()
    async with new_chat(chat_way, *FURTHER) as chat:
        async with chat.bot(script, gate=gate):
            talk = await met(chat)
            await chat.write("alice", talk, "Count the hens.", mention=True)
            await gate.held(1)
            for user in ("bob", *FURTHER):
                await chat.write(user, talk, f"And {user}?", mention=True)
                await chat.stored(f"And {user}?")
        assert chat.texts(talk) == ["Hello, Alice."]
        gate.opened.set()
        async with chat.bot(script, gate=gate):
            await chat.reads(talk, "For u4.")
            texts = [each for each in chat.texts(talk) if "For u" in each]

    assert texts == [f"For u{number}." for number in range(1, 5)]
    begun = [speaker(body) for body in asked if "<situation>" in said(body["messages"][-1])]
    assert list(dict.fromkeys(begun)) == ["u1", "u2", "u3", "u4"]
