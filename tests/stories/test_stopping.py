"""Stopping: an answer, a run, by word, by command, and only by its owner."""

from bot.conversations.access import AccessSettings
from bot.platforms.base import Confirmation, Incoming
from bot.values import RunStatus, short
from tests.fakes.anthropic_server import Reply
from tests.stories.stage import (
    ADMIN,
    ALICE,
    BOB,
    PLATFORM,
    ROOM,
    Play,
    Stage,
    call,
    said,
    stage,
)


async def test_stop_ends_the_answer_that_is_being_written_and_keeps_what_there_is(
    database_url: str,
) -> None:
    words = "Once upon a time there was a very long story. " * 3
    slow = Reply(text=words, fault="hang", after_events=5)
    play = Play(main=[slow, Reply(text="Next.")])
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Tell me a story.")
        await it.outlet.until(
            lambda: bool(it.outlet.replies and it.outlet.replies[0].updates), "the first words"
        )
        reply = await it.command(ALICE, "/stop")
        ended = await it.outlet.replied()
        await it.server.disconnected.wait()
        await it.say(ALICE, "And now?")
        await it.outlet.replied(2)

        assert "Stopped" in reply.text
        assert ended.final is not None
        assert ended.final.startswith("Once upon")
        assert ended.final.endswith("_(stopped)_")
        assert "Once upon" in said(play.asked[-1]["messages"][1])


async def test_nobody_stops_another_users_answer(database_url: str) -> None:
    play = Play(main=[call("wait_here"), Reply(text="Done.")])
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Think.")
        await it.gate.held(1)
        refused = await it.command(BOB, "/stop")
        it.gate.opened.set()

        assert refused.text == "Only Alice or an admin can stop this."
        assert (await it.outlet.replied()).final == "Done."


async def test_stopping_a_run_in_a_model_call_closes_the_connection_and_keeps_its_words(
    database_url: str,
) -> None:
    play = Play(
        runs={
            "Work": [
                Reply(text="I found one thing.", calls=call("current_time").calls),
                Reply(text="never", fault="hang"),
            ]
        }
    )
    async with stage(database_url, play) as it:
        await it.command(ALICE, "/subagents spawn Work")
        await it.server.received(2)
        await it.command(ALICE, "/subagents stop last")
        told = await it.outlet.announced((await it.run_of("Work")).id)
        await it.server.disconnected.wait()

        assert "Sub-agent stopped" in told.title
        assert "I found one thing." in told.text


async def test_stopping_what_is_over_says_so(database_url: str) -> None:
    play = Play(runs={"Work": [Reply(text="Done.")]})
    async with stage(database_url, play) as it:
        await it.command(ALICE, "/subagents spawn Work")
        await it.ended("Work", RunStatus.COMPLETED)
        stopped = await it.command(ALICE, "/subagents stop last")
        sent = await it.command(ALICE, "/subagents send last hurry up")

        assert "over already" in stopped.text
        assert "it cannot read this" in sent.text
        assert (await it.run_of("Work")).status is RunStatus.COMPLETED


async def test_a_message_that_came_too_late_is_told_with_the_result(database_url: str) -> None:
    play = Play(runs={"Work": [call("current_time"), Reply(text="x", fault="hang")]})
    async with stage(database_url, play) as it:
        await it.command(ALICE, "/subagents spawn Work")
        await it.server.received(2)
        await it.command(ALICE, "/subagents send last one more thing")
        play.runs["Work"] = []
        it.server.go.set()
        told = await it.outlet.announced((await it.run_of("Work")).id)

        assert "came too late to be read" in told.text


async def asked_to_stop(it: Stage, play: Play) -> Confirmation:
    """Have the model ask for the stop of Alice's run, and return the question."""
    await it.command(ALICE, "/subagents spawn --label digging Dig")
    await it.gate.held(1)
    run = await it.run_of("Dig")
    play.main = [call("sessions_stop", run_id=run.id), Reply(text="I asked you."), Reply(text="k")]
    await it.say(ALICE, "Please stop it.")
    await it.outlet.replied()
    return await it.outlet.asked()


def digging() -> Play:
    return Play(runs={"Dig": [call("wait_here"), Reply(text="Dug.")]})


async def test_when_the_model_wants_to_stop_a_run_its_owner_is_asked_first(
    database_url: str,
) -> None:
    play = digging()
    async with stage(database_url, play) as it:
        question = await asked_to_stop(it, play)
        run = await it.run_of("Dig")
        assert run.status is RunStatus.RUNNING
        assert "confirmation_asked" in said(play.asked[-1]["messages"][-1])
        assert "sessions_stop" in question.text
        assert run.id in question.text
        answer = await it.say(ALICE, "yes")
        await it.outlet.announced(run.id)

        assert answer is not None
        assert "The answer follows" in answer.text
        assert (await it.run_of("Dig")).status is RunStatus.CANCELLED
        await it.outlet.replied(2)
        assert "Stopped: " in said(play.asked[-1]["messages"][-1])


async def test_no_other_user_can_answer_and_no_answer_counts_twice(database_url: str) -> None:
    play = digging()
    async with stage(database_url, play) as it:
        question = await asked_to_stop(it, play)
        inbound = it.bot.orchestrator
        strangers = await inbound.answer(BOB, question.id, choice="yes")
        missing = await inbound.answer(BOB, "0" * 32, choice="yes")
        no = await inbound.answer(ALICE, question.id, choice="no")
        replay = await inbound.answer(ALICE, question.id, choice="yes")

        assert strangers.failed
        assert strangers.text == missing.text
        assert "Not done" in no.text
        assert replay.failed
        assert (await it.run_of("Dig")).status is RunStatus.RUNNING
        it.gate.opened.set()


async def test_a_strangers_yes_in_the_same_room_is_just_a_message(database_url: str) -> None:
    play = digging()
    async with stage(database_url, play) as it:
        await asked_to_stop(it, play)
        answer = await it.say(BOB, "yes")
        await it.outlet.replied(2)

        assert answer is None
        assert (await it.run_of("Dig")).status is RunStatus.RUNNING
        it.gate.opened.set()


async def test_an_expired_question_is_a_no(database_url: str) -> None:
    play = digging()
    async with stage(database_url, play) as it:
        question = await asked_to_stop(it, play)
        await it.expire(question.id)
        late = await it.bot.orchestrator.answer(ALICE, question.id, choice="yes")

        assert late.failed
        assert (await it.run_of("Dig")).status is RunStatus.RUNNING
        it.gate.opened.set()


async def test_changed_arguments_are_not_run(database_url: str) -> None:
    play = digging()
    async with stage(database_url, play) as it:
        question = await asked_to_stop(it, play)
        await it.tamper(question.id)
        refused = await it.bot.orchestrator.answer(ALICE, question.id, choice="yes")

        assert refused.failed
        assert (await it.run_of("Dig")).status is RunStatus.RUNNING
        it.gate.opened.set()


async def test_an_admin_may_deny_for_the_owner_and_not_allow(database_url: str) -> None:
    play = digging()
    access = AccessSettings(admins=(f"{PLATFORM}:root",))
    async with stage(database_url, play, access=access) as it:
        question = await asked_to_stop(it, play)
        allowed = await it.bot.orchestrator.answer(ADMIN, question.id, choice="yes")
        denied = await it.bot.orchestrator.answer(ADMIN, question.id, choice="no")

        assert allowed.text == "Only its owner can allow this. An admin can say no."
        assert "Not done" in denied.text
        assert (await it.run_of("Dig")).status is RunStatus.RUNNING
        it.gate.opened.set()


async def test_an_ambiguous_handle_is_answered_with_the_matches(database_url: str) -> None:
    play = Play(runs={"one": [call("wait_here")], "two": [call("wait_here")]})
    async with stage(database_url, play) as it:
        for word in ("one", "two"):
            await it.command(ALICE, f"/subagents spawn --label work {word}")
        await it.gate.held(2)
        refused = await it.command(ALICE, "/subagents stop work")

        assert refused.failed
        assert "fits several runs" in refused.text
        for word in ("one", "two"):
            assert short((await it.run_of(word)).id) in refused.text
        it.gate.opened.set()


async def test_the_question_is_about_the_run_that_was_meant_when_it_was_asked(
    database_url: str,
) -> None:
    play = Play(runs={word: [call("wait_here"), Reply(text=word)] for word in ("older", "newer")})
    async with stage(database_url, play) as it:
        await it.command(ALICE, "/subagents spawn older")
        await it.gate.held(1)
        play.main = [call("sessions_stop", run_id="last"), Reply(text="I asked.")]
        await it.say(ALICE, "Stop the last one.")
        question = await it.outlet.asked()
        await it.outlet.replied()
        await it.command(ALICE, "/subagents spawn newer")
        await it.gate.held(2)
        await it.say(ALICE, "yes")
        older = await it.run_of("older")
        await it.outlet.announced(older.id)

        assert "“older”" in question.text
        assert (await it.run_of("newer")).status is RunStatus.RUNNING
        it.gate.opened.set()


async def test_one_yes_delivered_twice_answers_one_question(database_url: str) -> None:
    play = Play(runs={word: [call("wait_here")] for word in ("one", "two")})
    async with stage(database_url, play) as it:
        for word in ("one", "two"):
            await it.command(ALICE, f"/subagents spawn --label {word} {word}")
        await it.gate.held(2)
        for count, word in enumerate(("one", "two"), 1):
            play.main = [call("sessions_stop", run_id=word), Reply(text="I asked.")]
            await it.say(ALICE, f"Stop {word}.")
            await it.outlet.replied(count)
        await it.outlet.asked(2)
        which = await it.say(ALICE, "yes")
        first = next(item for item in it.outlet.questions if "“one”" in item.text)
        event = Incoming(
            event_id="yes-1", user=ALICE, user_name="A", place=ROOM, text=f"yes {first.id[-6:]}"
        )
        answers = [await it.bot.orchestrator.receive(event) for _ in range(3)]
        await it.outlet.announced((await it.run_of("one")).id)

        assert which is not None
        assert "Which one do you mean?" in which.text
        assert answers[0] is not None
        assert "The answer follows" in answers[0].text
        assert answers[1:] == [None, None]
        assert (await it.run_of("two")).status is RunStatus.RUNNING
        it.gate.opened.set()


async def test_nobody_is_asked_about_a_run_that_is_over(database_url: str) -> None:
    play = Play(runs={"Work": [Reply(text="Done.")]})
    async with stage(database_url, play) as it:
        await it.command(ALICE, "/subagents spawn Work")
        await it.ended("Work", RunStatus.COMPLETED)
        play.main = [call("sessions_stop", run_id="last"), Reply(text="It is over.")]
        await it.say(ALICE, "Stop it.")
        await it.outlet.replied()

        assert it.outlet.questions == []
        assert "over already" in said(play.asked[-1]["messages"][-1])
