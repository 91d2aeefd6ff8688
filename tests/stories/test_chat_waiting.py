"""The main agent waits for a run within a turn, and a message of a user ends the wait."""

from tests.fakes.anthropic_server import Reply
from tests.stories.chats import ChatWay, new_chat
from tests.stories.stage import Play, call, newest_run


async def test_a_turn_goes_on_with_the_result_of_a_run_that_it_waited_for(
    chat_way: ChatWay,
) -> None:
    play = Play(
        main=[
            call("sessions_spawn", task="Dig", label="digging"),
            call("sessions_wait"),
            Reply(text="It found gold."),
        ],
        runs={"Dig": [call("wait_here"), Reply(text="Dug up gold.")]},
    )
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "Dig, and tell me what you find.")
        await chat.gate.held(1)
        # The run may end before the turn waits for it.
        chat.gate.opened.set()
        await chat.reads(talk, "It found gold.")

        waited = str(play.asked[-1]["messages"][-1])
        assert "digging" in waited
        assert "Dug up gold." in waited


async def test_a_message_ends_the_wait_and_is_answered_in_the_same_turn(
    chat_way: ChatWay,
) -> None:
    play = Play(
        main=[
            call("sessions_spawn", task="Dig", label="digging"),
            call("sessions_wait"),
            Reply(text="Never mind, then."),
        ],
        runs={"Dig": [call("wait_here"), Reply(text="Dug.")]},
    )
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "Dig, and tell me what you find.")
        await chat.gate.held(1)
        await chat.card(talk, "digging")
        await chat.write("alice", talk, "Never mind!", mention=True)
        await chat.reads(talk, "Never mind, then.")

        assert "A message has arrived" in str(play.asked[-1]["messages"])
        assert "Never mind!" in str(play.asked[-1]["messages"])
        assert not (await newest_run(chat.running, "Dig")).status.final
        chat.gate.opened.set()
