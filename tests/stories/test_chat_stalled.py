"""Work that is silent for too long is interrupted, reports, and its owner and admins know."""

from bot.conversations.access import AccessSettings
from bot.subagents.active import ActiveRuns
from bot.values import RunStatus
from tests.fakes.anthropic_server import Reply
from tests.fakes.patience import eventually
from tests.stories.at_terminal import at_terminal
from tests.stories.chats import ChatWay, new_chat
from tests.stories.stage import Play, call, newest_run

#: Nothing comes after the first events of the answer.
SILENCE = Reply(text="I count the", fault="hang", after_events=4)


def silent_run() -> Play:
    return Play(
        main=[call("sessions_spawn", task="Count the hens", label="hens"), Reply(text="Begun.")],
        runs={"Count": [call("wait_here"), SILENCE, Reply(text="Six hens so far.")]},
    )


async def let_time_pass(active: ActiveRuns) -> None:
    """Let the work in this process be silent for longer than it may."""

    async def pass_by() -> bool:
        found = [each.activity for each in active.by_id.values() if each.activity]
        for activity in found:
            # As if the last event was so long ago.
            activity.note_wait(-1_000)
        return any(activity.stalled for activity in found) or not active.by_id

    await eventually(pass_by, "an interruption")


async def test_a_silent_run_stalls_with_a_report_and_is_announced(chat_way: ChatWay) -> None:
    async with new_chat(chat_way) as chat:
        name, ops = chat.add_admin_channel("root")
        access = AccessSettings(admins=(chat.account("root"),), admin_channel=(name,))
        async with chat.bot(silent_run(), access=access):
            talk = await chat.ask("alice", "Count my hens.")
            await chat.reads(talk, "Begun.")
            await chat.gate.held(1)
            chat.gate.opened.set()
            await let_time_pass(chat.running.upkeep.active)
            shown = await chat.reads(talk, "Six hens so far.")

            await chat.reads(ops, "“hens”")
            assert "stalled" in shown.text
            assert (await newest_run(chat.running, "Count")).status is RunStatus.STALLED


async def test_a_silent_turn_ends_with_a_sentence(chat_way: ChatWay) -> None:
    play = Play(main=[SILENCE, Reply(text="I got half of it.")])
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "Count my hens.")
        await chat.until(lambda: chat.running.upkeep.turns.by_id, "a turn")
        await let_time_pass(chat.running.upkeep.turns)
        shown = await chat.reads(talk, "I got half of it.")

        assert "nothing came for too long" in shown.text


async def test_a_silent_turn_ends_at_the_terminal(sqlite_url: str) -> None:
    play = Play(main=[SILENCE, Reply(text="I got half of it.")])
    async with at_terminal(sqlite_url, play) as it:
        it.send("Count my hens.")
        await it.until(lambda: bool(it.bot.upkeep.turns.by_id), "a turn")
        await let_time_pass(it.bot.upkeep.turns)
        await it.shows("I got half of it.")
        await it.shows("nothing came for too long")


async def test_a_silent_run_stalls_at_the_terminal(sqlite_url: str) -> None:
    play = Play(
        main=[call("sessions_spawn", task="Count the hens", label="hens"), Reply(text="Begun.")],
        runs={"Count": [SILENCE, Reply(text="Six hens so far.")]},
    )
    access = AccessSettings(admins=("terminal:alice",))
    async with at_terminal(sqlite_url, play, access=access) as it:
        it.send("Count my hens.")
        await it.shows("Begun.")
        await it.until(lambda: bool(it.bot.upkeep.active.by_id), "the run")
        await let_time_pass(it.bot.upkeep.active)
        await it.shows("Six hens so far.")
        # As the owner's result, and as the admin's notice.
        await it.shows("stalled")
        await it.shows("For admins")
