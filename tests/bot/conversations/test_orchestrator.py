"""Messages are stored once, in order, before the platform is told that they were received."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import select

from bot.conversations.access import AccessSettings, spelled
from bot.conversations.answers import SHOWN_SECONDS
from bot.conversations.placing import put_overheard
from bot.conversations.settings import ConversationSettings
from bot.errors import NotAllowedError
from bot.events import TurnWaiting
from bot.platforms.base import CommandReply
from bot.platforms.messages import Attachment, PastMessage, Quoted
from bot.rights.settings import RolesSettings
from bot.values import Identity, Place, Role
from db import conversations as conversation_queries
from db import outbox, run_questions
from db import turns as turn_queries
from db.database import DatabaseSettings
from db.run_questions import RunQuestion
from db.tables import conversations, files, messages, seen_events, subagent_runs, turns, users
from tests.bot.conversations.hearing import Process, message, opened
from tests.fakes.clock import FakeClock
from tests.fakes.engine import ENGINE
from tests.fakes.stored import Stored, room

START = FakeClock()()
TABLES = (conversations, messages, seen_events, turns, users)


@pytest.fixture
async def process(database_settings: DatabaseSettings, clock: FakeClock) -> AsyncIterator[Process]:
    async with opened(database_settings, clock) as one:
        yield one


@pytest.fixture
def stored(process: Process) -> Stored:
    return Stored(process.database, process.clock)


async def test_a_message_is_stored_with_its_turn_and_the_turn_begins(
    process: Process, stored: Stored, alice: Identity
) -> None:
    raw = message(alice, "  Hel\u202elo\n")

    assert await process.orchestrator.receive(raw) is None

    (turn_id,) = await process.started_turns()
    async with process.database.snapshot() as tx:
        turn = await turn_queries.get(tx, turn_id)
        text = await tx.scalar(select(messages.c.text))
    assert turn is not None
    assert (turn.user, turn.status, turn.place) == (alice, "running", room(alice))
    assert text == "Hello"
    assert process.acknowledged == [room(alice)]
    assert await stored.counts(TABLES) == dict.fromkeys((table.name for table in TABLES), 1)


async def test_messages_of_one_conversation_wait_for_their_turn_and_begin_in_order(
    process: Process, clock: FakeClock, alice: Identity
) -> None:
    for text in ("one", "two", "three"):
        await process.orchestrator.receive(message(alice, text))
    (first,) = await process.started_turns()

    order = [first]
    for _ in range(2):
        async with process.database.transaction() as tx:
            turn = await turn_queries.begin(tx, order[-1], worker_id=ENGINE, now=clock())
            assert turn is not None
            await turn_queries.end(tx, turn, status="done", now=clock())
        waiting = TurnWaiting(conversation_id=turn.conversation_id, platform=alice.platform)
        process.orchestrator.queue.on_turn_waiting(waiting)
        order = await process.started_turns()

    async with process.database.snapshot() as tx:
        joined = select(messages.c.text).join(turns, turns.c.message_id == messages.c.id)
        texts = [await tx.scalar(joined.where(turns.c.id == turn_id)) for turn_id in order]
    assert texts == ["one", "two", "three"]


@pytest.mark.parametrize("when", ["begin", "commit"])
async def test_a_message_that_cannot_be_stored_is_not_acknowledged_and_is_heard_when_it_comes_again(
    process: Process, stored: Stored, alice: Identity, when: str
) -> None:
    said = message(alice, "Hello", event_id="e1")
    process.database.fail_next(OSError("down"), when="begin" if when == "begin" else "commit")

    with pytest.raises(OSError, match="down"):
        await process.orchestrator.receive(said)

    assert (process.acknowledged, await process.started_turns()) == ([], [])
    assert set((await stored.counts(TABLES)).values()) == {0}
    await process.orchestrator.receive(said)
    assert len(await process.started_turns()) == 1


async def test_a_message_whose_commit_was_not_answered_is_not_taken_twice(
    process: Process, stored: Stored, alice: Identity
) -> None:
    said = message(alice, "Hello", event_id="e1")
    process.database.fail_next(OSError("down"), when="answer")

    with pytest.raises(OSError, match="down"):
        await process.orchestrator.receive(said)
    await process.orchestrator.receive(said)

    assert (await stored.counts(TABLES))["turns"] == 1


async def test_one_event_that_two_processes_hear_at_once_several_times_is_one_turn(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity
) -> None:
    said = message(alice, "Hello", event_id="e1")
    async with AsyncExitStack() as stack:
        processes = [
            await stack.enter_async_context(opened(database_settings, clock)) for _ in range(2)
        ]
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for each in processes * 2:
                group.create_task(each.orchestrator.receive(said))

        started = [turn for each in processes for turn in await each.started_turns()]
        counts = await Stored(processes[0].database, clock).counts(TABLES)

    assert len(started) == 1
    assert set(counts.values()) == {1}


async def test_one_command_that_two_processes_hear_at_once_is_carried_out_once(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity
) -> None:
    said = message(alice, "/subagents spawn Count sheep", event_id="e1")
    async with AsyncExitStack() as stack:
        processes = [
            await stack.enter_async_context(opened(database_settings, clock)) for _ in range(2)
        ]
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            heard = [group.create_task(each.orchestrator.receive(said)) for each in processes * 2]

        runs = await Stored(processes[0].database, clock).count(subagent_runs)

    assert runs == 1
    assert sum(task.result() is not None for task in heard) == 1


async def test_first_messages_of_a_user_at_once_in_two_processes_are_one_conversation(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity
) -> None:
    async with AsyncExitStack() as stack:
        processes = [
            await stack.enter_async_context(opened(database_settings, clock)) for _ in range(2)
        ]
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for number, each in enumerate(processes * 3):
                group.create_task(each.orchestrator.receive(message(alice, f"Hello {number}")))

        started = [turn for each in processes for turn in await each.started_turns()]
        counts = await Stored(processes[0].database, clock).counts(TABLES)

    assert len(started) == 1
    assert counts == {
        "conversations": 1, "messages": 6, "seen_events": 6, "turns": 6, "users": 1,
    }  # fmt: skip


async def test_names_and_texts_that_no_database_takes_are_heard_all_the_same(
    process: Process, alice: Identity
) -> None:
    for text in ("He\0llo\ud800", "/subagents help\0\udfff", "/subagents info \0\ud800"):
        await process.orchestrator.receive(message(alice, text, name="Al\0ice\ud800" + "x" * 500))

    async with process.database.snapshot() as tx:
        name = await tx.scalar(select(users.c.name))
        said = await tx.scalar(select(messages.c.text))
    assert (name or "").startswith("Al\ufffdice\ufffdxxx")
    assert said == "He\ufffdllo\ufffd"
    assert len(await process.started_turns()) == 1


async def test_nothing_is_stored_of_a_message_without_words_or_with_too_many(
    process: Process, stored: Stored, alice: Identity
) -> None:
    assert await process.orchestrator.receive(message(alice, " \u200b\n ")) is None
    too_long = await process.orchestrator.receive(message(alice, "x" * 50_001))

    assert too_long is not None
    assert "50,001 characters" in too_long.text
    assert set((await stored.counts(TABLES)).values()) == {0}


# -- who speaks, where, and to which model ---------------------------------------------------------


@pytest.mark.parametrize("admin", [True, False])
async def test_the_turn_keeps_what_its_user_was_when_they_spoke(
    process: Process, alice: Identity, admin: bool
) -> None:
    await process.orchestrator.receive(replace(message(alice, "Hello"), admin=admin))

    (turn_id,) = await process.started_turns()
    async with process.database.snapshot() as tx:
        turn = await turn_queries.get(tx, turn_id)
    assert turn is not None
    assert turn.role is (Role.ADMIN if admin else Role.USER)


async def test_only_whom_the_platform_makes_an_admin_lists_everyones_runs(
    process: Process, alice: Identity
) -> None:
    said = replace(message(alice, "/subagents list all"), place=Place("discord", "7001", "room"))

    refused = await process.orchestrator.receive(said)
    listed = await process.orchestrator.receive(replace(said, event_id="again", admin=True))

    assert refused is not None
    assert refused.failed
    assert listed is not None
    assert not listed.failed


async def test_a_user_chooses_among_their_own_runs(
    process: Process, stored: Stored, alice: Identity, bob: Identity
) -> None:
    mine = await stored.run(alice, label="mine")
    await stored.run(bob, label="mine")
    admin = replace(process.orchestrator, access=AccessSettings(admins=(spelled(alice),)))

    for orchestrator in (process.orchestrator, admin):
        for typed in ("", "mine"):
            choices = await orchestrator.run_choices(alice, typed)

            assert [run_id for run_id, _ in choices] == [mine.id]


@pytest.mark.parametrize(
    ("action", "offered"),
    [
        ("", {"going", "over", "unread"}),
        ("log", {"going", "over", "unread"}),
        ("info", {"going", "over", "unread"}),
        ("stop", {"going"}),
        ("send", {"going"}),
        ("read", {"over", "unread"}),
        ("retry", {"unread"}),
        ("dismiss", {"unread"}),
    ],
)
async def test_only_runs_on_which_an_action_can_be_taken_are_offered(
    process: Process, stored: Stored, alice: Identity, action: str, offered: set[str]
) -> None:
    ended = {"completed_at": process.clock()}
    going = await stored.run(alice, label="run going", status="running")
    over = await stored.run(alice, label="run over", status="completed", **ended)
    unread = await stored.run(alice, label="run unread", status="failed", **ended)
    async with process.database.transaction() as tx:
        item = outbox.NewOutboxEntry(
            key=unread.id, user_id=alice.key, place=room(alice), run_id=unread.id, title="", text=""
        )
        await outbox.put(tx, item, process.clock(), status="blocked")
    names = {going.id: "going", over.id: "over", unread.id: "unread"}

    for typed in ("", "run"):
        found = await process.orchestrator.run_choices(alice, typed, action=action)

        assert {names[run_id] for run_id, _ in found} == offered


async def test_a_thread_is_listened_to_as_long_as_its_talk_is_fresh(
    process: Process, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    listens = process.orchestrator.listens
    assert not await listens(alice, room(alice))

    await process.orchestrator.receive(message(alice, "Hello"))
    clock.advance(23 * 3600)

    assert await listens(alice, room(alice))
    assert not await listens(alice, replace(room(alice), thread="another"))
    assert not await listens(bob, room(alice))
    clock.advance(2 * 3600)
    assert not await listens(alice, room(alice))


async def test_a_thread_is_listened_to_as_before_when_its_talk_was_started_afresh(
    process: Process, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    listens = process.orchestrator.listens
    await process.orchestrator.receive(message(alice, "Hello"))
    clock.advance(23 * 3600)
    await process.orchestrator.receive(message(alice, "/new"))
    clock.advance(23 * 3600)

    assert await listens(alice, room(alice))
    assert not await listens(bob, room(alice))
    clock.advance(2 * 3600)
    assert not await listens(alice, room(alice))


async def test_a_place_is_listened_to_in_the_moment_in_which_a_run_asks_there(
    process: Process, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    run = await stored.run(alice, status="waiting_input")
    question = RunQuestion(
        id="q1",
        run_id=run.id,
        user_id=run.user_id,
        kind="input",
        text="Which?",
        expires_at=clock() + timedelta(minutes=10),
    )
    async with process.database.transaction() as tx:
        await run_questions.put(tx, question, room(alice), clock())

    async def told() -> None:
        async with process.database.transaction() as tx:
            await run_questions.show(tx, question.id, "m1", clock())

    soon = partial(process.tasks.start, told(), name="the platform's word")
    asyncio.get_running_loop().call_later(SHOWN_SECONDS, soon)
    below = replace(room(alice), thread="m1")

    assert await process.orchestrator.listens(alice, below)
    assert not await process.orchestrator.listens(bob, below)


async def test_a_model_is_chosen_for_one_conversation_and_given_back(
    process: Process, alice: Identity, bob: Identity
) -> None:
    async def answered(user: Identity, text: str) -> str:
        reply = await process.orchestrator.receive(message(user, text))
        assert reply is not None
        return reply.text

    async def model_of_next_turn(user: Identity) -> str:
        await process.orchestrator.receive(message(user, "Hello"))
        async with process.database.snapshot() as tx:
            turn = await turn_queries.get(tx, (await process.started_turns())[-1])
        assert turn is not None
        return turn.model

    assert "`fake/small` answers" in await answered(alice, "/model small")
    assert "`fake/small` ← answers here" in await answered(alice, "/model")
    assert "may not be asked for" in await answered(alice, "/model huge")
    assert "`fake/large` ← answers here" in await answered(bob, "/model")
    assert await model_of_next_turn(alice) == "fake/small"
    assert "`fake/large` answers" in await answered(alice, "/model default")
    assert await model_of_next_turn(bob) == ""


async def test_an_overview_holds_a_users_own_runs_and_nobody_elses(
    process: Process, stored: Stored, alice: Identity, bob: Identity
) -> None:
    going = await stored.run(alice, label="mine", status="running")
    over = await stored.run(alice, label="done", status="completed", completed_at=process.clock())
    await stored.run(bob, label="other", status="running")

    seen = await process.orchestrator.overview(alice)

    assert [card.run_id for card in seen.active] == [going.id]
    assert [card.run_id for card in seen.ended] == [over.id]
    assert "Running: 1 of" in seen.usage
    assert seen.agents == ("`general`: Does anything.",)


async def test_whom_the_admins_shut_out_is_refused_whatever_they_try(
    process: Process, stored: Stored, alice: Identity
) -> None:
    await stored.run(alice, label="mine")
    await process.orchestrator.receive(message(alice, "Hello"))
    blocked = AccessSettings(blocked=(spelled(alice),))
    now_shut = replace(process.orchestrator, access=blocked)

    said = await now_shut.receive(message(alice, "Hello again"))
    command = await now_shut.receive(message(alice, "/subagents list"))
    answer = await now_shut.answer(alice, "0" * 32, choice="yes")

    for reply in (said, command, answer):
        assert reply is not None
        assert "cannot use this bot" in reply.text
        assert reply.refused
    assert await now_shut.run_choices(alice, "") == []
    assert not await now_shut.listens(alice, room(alice))
    assert await stored.count(messages) == 1


async def test_the_same_event_stops_one_answer_and_not_the_next(
    process: Process, stored: Stored, alice: Identity
) -> None:
    async def stop() -> CommandReply | None:
        return await process.orchestrator.receive(message(alice, "/stop", event_id="event:1"))

    await process.orchestrator.receive(message(alice, "Talk"))
    first = await stop()
    again = await stop()

    assert first is not None
    assert "Stopped" in first.text
    assert again is None


async def test_who_is_shut_out_stops_nothing_and_sees_nothing_at_one_glance(
    process: Process, stored: Stored, alice: Identity
) -> None:
    await process.orchestrator.receive(message(alice, "Talk"))
    access = AccessSettings(blocked=(spelled(alice),))
    shut = replace(process.orchestrator, access=access)

    reply = await shut.receive(message(alice, "/stop"))
    with pytest.raises(NotAllowedError):
        await shut.overview(alice)

    assert reply is not None
    assert reply.refused


# -- files -----------------------------------------------------------------------------------------


def attached(name: str, content: bytes) -> Attachment:
    async def read() -> bytes:
        return content

    return Attachment(name=name, media_type="", size=len(content), read=read)


async def test_files_are_stored_with_their_message_and_what_is_not_taken_is_told(
    process: Process, stored: Stored, alice: Identity
) -> None:
    sent = (attached("sheep.csv", b"Dolly,6"), attached("barn.zip", b"PK\x03\x04\x00\xff\x80"))

    await process.orchestrator.receive(replace(message(alice, "Look"), files=sent))

    async with process.database.snapshot() as tx:
        kept = [(row.name, row.data) for row in await tx.execute(select(files))]
        quoted = await tx.scalar(select(messages.c.quoted))
    assert kept == [("sheep.csv", b"Dolly,6")]
    assert "barn.zip was not taken" in str(quoted)
    [told] = process.told
    assert (told.place, told.user) == (room(alice), alice)
    assert "barn.zip was not taken" in told.text
    assert process.acknowledged == [room(alice)]


async def test_a_file_needs_no_words_but_a_refused_one_alone_begins_nothing(
    process: Process, stored: Stored, alice: Identity
) -> None:
    wordless = replace(message(alice, ""), files=(attached("a.txt", b"Read me"),))
    useless = replace(message(alice, ""), files=(attached("a.zip", b"PK\x03\x04\x00\xff"),))

    refused = await process.orchestrator.receive(useless)
    nothing = await stored.count(messages)
    taken = await process.orchestrator.receive(wordless)

    assert refused is not None
    assert "a.zip was not taken" in refused.text
    assert nothing == 0
    assert taken is None
    assert await stored.count(messages) == 1


async def test_a_message_is_stored_before_its_files_are_fetched_and_answered_with_or_without_them(
    process: Process, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    asked = asyncio.Event()

    async def never() -> bytes:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    slow = replace(attached("a.txt", b"Read me"), read=never)
    hearing = asyncio.ensure_future(
        process.orchestrator.receive(replace(message(alice, "Look"), files=(slow,)))
    )
    await asyncio.wait_for(asked.wait(), 5)
    hearing.cancel()  # the process dies
    await asyncio.wait({hearing})
    await process.orchestrator.receive(message(alice, "And this?"))

    conversation = await stored.conversation(alice)
    assert await process.started_turns() == []
    clock.advance(60)
    assert await stored.claim_turn(conversation) is not None
    async with process.database.snapshot() as tx:
        texts = list(await tx.scalars(select(messages.c.text).order_by(messages.c.id)))
        quoted = await tx.scalar(select(messages.c.quoted).where(messages.c.text == "Look"))
    assert process.acknowledged == [room(alice), room(alice)]
    assert texts == ["Look", "And this?"]
    assert quoted == [{"kind": "note", "text": "The file a.txt has not been read."}]


async def test_a_file_delivered_twice_is_stored_once(
    process: Process, stored: Stored, alice: Identity
) -> None:
    sent = (attached("a.txt", b"Read me"), attached("a.zip", b"PK\x03\x04\x00\xff"))
    said = replace(message(alice, "Look"), files=sent)

    await process.orchestrator.receive(said)
    await process.orchestrator.receive(said)

    assert await stored.count(files) == 1
    assert len(process.told) == 1


async def test_what_others_wrote_is_stored_apart_from_the_users_words(
    process: Process, alice: Identity
) -> None:
    forward = Quoted("forwarded", "I am the boss.")

    await process.orchestrator.receive(replace(message(alice, ""), quoted=(forward,)))

    async with process.database.snapshot() as tx:
        (row,) = await tx.execute(select(messages))
    assert (row.text, row.quoted) == ("", [{"kind": "forwarded", "text": "I am the boss."}])
    assert row.foreign_content


async def test_a_message_with_a_quoting_line_is_foreign(process: Process, alice: Identity) -> None:
    await process.orchestrator.receive(message(alice, "> I am the boss.\nIs that so?"))

    async with process.database.snapshot() as tx:
        assert await tx.scalar(select(messages.c.foreign_content)) is True


@pytest.mark.parametrize(
    ("minutes", "interrupted", "listened"),
    [(14, False, True), (16, False, False), (1, True, False)],
)
async def test_where_several_have_spoken_a_user_needs_no_mention_for_a_short_time(
    database_settings: DatabaseSettings,
    clock: FakeClock,
    alice: Identity,
    bob: Identity,
    minutes: float,
    interrupted: bool,
    listened: bool,
) -> None:
    place = replace(room(alice), workspace="guild")
    async with opened(database_settings, clock, ConversationSettings()) as process:
        orchestrator = process.orchestrator
        heard = replace(message(bob, "psst"), place=place)
        assert not await orchestrator.overhear(heard)
        await orchestrator.receive(replace(message(alice, "Hello"), place=place))
        assert await orchestrator.overhear(
            replace(heard, event_id="another", place=replace(place, message="m2"))
        )
        (turn_id,) = await process.started_turns()
        async with process.database.transaction() as tx:
            turn = await turn_queries.begin(tx, turn_id, worker_id=ENGINE, now=clock())
            assert turn is not None
            await conversation_queries.say(
                tx, turn.conversation_id, role="assistant", text="Hi.", now=clock()
            )
            await turn_queries.end(tx, turn, status="done", now=clock())
        if interrupted:
            await orchestrator.overhear(
                replace(heard, event_id="one more", place=replace(place, message="m3"))
            )
        clock.advance(minutes * 60)

        assert await orchestrator.listens(alice, replace(place, message="")) is listened


async def test_a_message_that_an_edit_addresses_to_the_bot_is_answered_although_it_was_overheard(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity
) -> None:
    place = replace(room(alice), workspace="guild")
    async with opened(database_settings, clock, ConversationSettings()) as process:
        orchestrator = process.orchestrator
        await orchestrator.receive(replace(message(alice, "Hello"), place=place))
        place = replace(place, message="m2")
        heard = replace(message(alice, "How are you?", event_id="edited"), place=place)
        assert await orchestrator.overhear(heard)
        assert await orchestrator.overhear(heard)

        await orchestrator.receive(heard)

        stored = Stored(process.database, clock)
        assert await stored.count(turns) == 2
        assert await stored.count(messages) == 2


async def test_a_message_without_an_id_of_the_platform_leaves_what_was_overheard(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    place = replace(room(alice), workspace="guild", message="")
    async with opened(database_settings, clock, ConversationSettings()) as process:
        orchestrator = process.orchestrator
        await orchestrator.receive(replace(message(alice, "Hello"), place=place))
        assert await orchestrator.overhear(replace(message(bob, "psst"), place=place))

        await orchestrator.receive(replace(message(alice, "And?"), place=place))

        assert await Stored(process.database, clock).count(messages) == 3


async def test_the_files_of_an_overheard_message_are_named_beside_its_text(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    place = replace(room(alice), workspace="guild")
    plan = attached("plan.pdf", b"%PDF")
    async with opened(database_settings, clock, ConversationSettings()) as process:
        await process.orchestrator.receive(replace(message(alice, "Hello"), place=place))
        said = replace(message(bob, "Our plan"), place=replace(place, message="m2"), files=(plan,))
        assert await process.orchestrator.overhear(said)

        async with process.database.snapshot() as tx:
            stored = select(messages.c.text, messages.c.quoted).where(messages.c.overheard)
            (row,) = await tx.execute(stored)
        assert row.text == "Our plan"
        assert row.quoted == [{"kind": "note", "text": "attached: plan.pdf"}]


def past(alice: Identity, number: int, text: str, *, edited: bool = False) -> PastMessage:
    place = replace(room(alice), message=str(number))
    return PastMessage(
        event_id=f"e{number}",
        place=place,
        author=alice,
        author_name="Alice",
        text=text,
        sent_at=START,
        edited=edited,
    )


async def test_edits_and_deletions_are_seen_in_the_newest_messages_of_a_place(
    process: Process, alice: Identity
) -> None:
    for number in (5, 6, 7, 8, 9):
        place = replace(room(alice), message=str(number))
        await process.orchestrator.receive(replace(message(alice, f"text {number}"), place=place))

    # A message that was not edited may be stored without the command before it.
    fetched = [past(alice, 6, "new 6", edited=True), past(alice, 8, "!ask text 8")]
    await process.orchestrator.compare(room(alice), fetched)

    async with process.database.snapshot() as tx:
        texts = [*await tx.scalars(select(messages.c.text).order_by(messages.c.id))]
    assert [text for text in texts if text] == ["text 5", "new 6", "text 8", "text 9"]


async def test_where_no_context_is_wanted_an_edit_brings_no_words_of_others(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    place = replace(room(alice), workspace="guild", message="1")
    nothing = ConversationSettings(context_messages=0)
    async with opened(database_settings, clock, nothing) as process:
        orchestrator = process.orchestrator
        await orchestrator.receive(replace(message(alice, "Hello"), place=place))
        heard = replace(place, message="2")
        assert await orchestrator.overhear(replace(message(bob, "Pancakes?"), place=heard))

        await orchestrator.changed(heard, "Pancakes at four?")
        await orchestrator.changed(place, "Hello there")

        async with process.database.snapshot() as tx:
            texts = [*await tx.scalars(select(messages.c.text).order_by(messages.c.id))]
        assert texts == ["Hello there", ""]


async def test_questions_of_commands_stay_in_the_conversations_of_others(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    place = replace(room(alice), workspace="guild", message="")
    personal = ConversationSettings(mode="personal")
    async with opened(database_settings, clock, personal) as process:
        await process.orchestrator.receive(replace(message(alice, "Hello"), place=place))
        for text in ("one", "two"):
            await process.orchestrator.receive(replace(message(bob, text), place=place))

        async with process.database.snapshot() as tx:
            heard = select(messages.c.text).where(messages.c.overheard)
            assert [*await tx.scalars(heard.order_by(messages.c.id))] == ["one", "two"]


async def test_a_message_that_was_read_above_before_it_arrives_is_kept_once(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    place = replace(room(alice), workspace="guild")
    said = replace(message(bob, "Our plan"), place=replace(place, message="m2"))
    async with opened(database_settings, clock, ConversationSettings()) as process:
        await process.orchestrator.receive(replace(message(alice, "Hello"), place=place))
        async with process.database.transaction() as tx:
            (here,) = await conversation_queries.open_at(tx, said.place, shared=True)
            await put_overheard(tx, here, said, by_bot=False, now=clock())

        assert await process.orchestrator.overhear(said)

        assert await Stored(process.database, clock).count(messages) == 2


async def test_the_roles_of_an_event_admit_its_user_or_refuse_them(
    process: Process, alice: Identity
) -> None:
    roles = {"named": {"lead": {"members": ["discord-role:70010:60010"]}, "guest": {"places": []}}}
    settings = RolesSettings.model_validate(roles | {"default": "guest"})
    place = Place("discord", "70010", "room")
    directory = replace(process.orchestrator.directory, settings=settings)
    orchestrator = replace(process.orchestrator, directory=directory)
    said = replace(message(alice, "Hello"), place=place)
    lead = frozenset({"discord-role:70010:60010"})

    admitted = await orchestrator.receive(replace(said, groups=lead))
    refused = await orchestrator.receive(replace(said, event_id="2", groups=frozenset()))
    click = await orchestrator.answer(alice, "0" * 32, choice="yes", place=place)

    text = "The role `guest` may not use this bot here. Ask an operator of this bot."
    assert admitted is None
    assert refused is not None
    assert (refused.text, click.text) == (text, text)
    assert len(await process.started_turns()) == 1


async def test_an_admin_of_a_server_by_a_role_of_the_platform_is_one_there(
    process: Process, alice: Identity
) -> None:
    lead = "discord-role:70010:60010"
    access = AccessSettings(place_admins={"discord:70010": (lead,)})
    orchestrator = replace(process.orchestrator, access=access)
    here, there = Place("discord", "70010", "room"), Place("discord", "70020", "room")
    said = replace(message(alice, "/subagents list all"), place=here, groups=frozenset({lead}))

    listed = await orchestrator.receive(said)
    refused = await orchestrator.receive(replace(said, place=there, event_id="2"))

    assert listed is not None
    assert refused is not None
    assert (listed.failed, refused.failed) == (False, True)
