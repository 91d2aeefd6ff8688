"""Admins pause, resume, stop and drain the bot, on every chat and in the terminal."""

from bot.conversations.access import AccessSettings
from bot.values import RunStatus
from tests.fakes.anthropic_server import Reply
from tests.stories.at_terminal import at_terminal
from tests.stories.chats import Chat, ChatWay, new_chat
from tests.stories.stage import Play, call, newest_run


def with_admin(chat: Chat) -> AccessSettings:
    return AccessSettings(admins=(chat.account("root"),))


def hens() -> Play:
    """Return a play in which a run of Alice waits at a gate."""
    return Play(
        main=[
            call("sessions_spawn", task="Count the hens", label="hens"),
            Reply(text="Begun."),
            Reply(text="Hello again."),
        ],
        runs={"Count": [call("wait_here"), Reply(text="Six hens.")]},
    )


async def command(chat: Chat, user: str, text: str) -> str:
    """Let a user type an admin command in direct messages, and return the answer."""
    before = len(chat.direct_texts(user))
    await chat.ask_privately(user, f"!retinue {text}")
    await chat.until(lambda: len(chat.direct_texts(user)) > before, f"an answer to {text}")
    return chat.direct_texts(user)[-1]


async def test_while_all_is_paused_messages_are_kept_and_answered_afterwards(
    chat_way: ChatWay,
) -> None:
    async with new_chat(chat_way) as chat, chat.bot(hens(), access=with_admin(chat)):
        talk = await chat.ask("alice", "Count my hens.")
        await chat.card(talk, "hens")
        await chat.reads(talk, "Begun.")
        await chat.stored("Begun.")
        await chat.gate.held(1)
        said = await command(chat, "root", "pause all")
        await chat.write("alice", talk, "Hello?", mention=True)
        await chat.until(
            lambda: any("Your message is kept" in each for each in everything(chat, talk)),
            "a sentence about the pause",
        )
        usage = await chat.command("alice", talk, "subagents list")
        chat.gate.opened.set()
        await chat.reads(talk, "Six hens.")
        unanswered = "Hello again." not in str(chat.texts(talk))
        done = await command(chat, "root", "resume all")
        await chat.reads(talk, "Hello again.")

        assert "Paused: the whole bot" in said
        assert unanswered
        assert "nothing new begins" in usage.text
        assert "Resumed: the whole bot" in done
        [result] = [each for each in chat.texts(talk) if "Six hens." in each]
        assert "nothing new begins" in result


def everything(chat: Chat, talk: object) -> list[str]:
    return [*chat.texts(talk), *chat.told("alice")]  # type: ignore[arg-type]


async def test_a_pause_survives_a_restart_and_holds_for_its_user_alone(chat_way: ChatWay) -> None:
    play = Play(main=[Reply(text="Hello Bob."), Reply(text="Hello Alice.")])
    async with new_chat(chat_way) as chat:
        account = chat.account("alice")
        async with chat.bot(play, access=with_admin(chat)):
            await command(chat, "root", f"pause user {account}")
        async with chat.bot(play, access=with_admin(chat)):
            talk = await chat.ask("alice", "Good morning.")
            await chat.until(
                lambda: (
                    any("Your message is kept" in each for each in chat.told("alice"))
                    or "Your message is kept" in str(chat.in_channel())
                ),
                "a sentence about the pause",
            )
            other = await chat.ask("bob", "Good morning.")
            await chat.reads(other, "Hello Bob.")
            await command(chat, "root", f"resume user {account}")
            await chat.reads(talk, "Hello Alice.")


async def test_a_kill_stops_everything_after_a_confirmation_with_what_there_is(
    chat_way: ChatWay,
) -> None:
    async with new_chat(chat_way) as chat, chat.bot(hens(), access=with_admin(chat)):
        talk = await chat.ask("alice", "Count my hens.")
        await chat.reads(talk, "Begun.")
        await chat.stored("Begun.")
        await chat.gate.held(1)
        preview = await command(chat, "root", "kill all")
        going = (await newest_run(chat.running, "Count")).status
        done = await command(chat, "root", "kill all yes")
        await chat.until(lambda: "stopped" in str(chat.texts(talk)).lower(), "the run stopped")

        assert "This stops 1 run and 0 answers of 1 user in the whole bot" in preview
        assert going is RunStatus.RUNNING
        assert "Stopped 1 run and 0 answers of 1 user" in done
        assert (await newest_run(chat.running, "Count")).status is RunStatus.CANCELLED


async def test_a_drained_process_says_so_and_begins_nothing_new(chat_way: ChatWay) -> None:
    async with new_chat(chat_way) as chat, chat.bot(hens(), access=with_admin(chat)):
        talk = await chat.ask("alice", "Count my hens.")
        await chat.reads(talk, "Begun.")
        await chat.stored("Begun.")
        await chat.gate.held(1)
        before = chat.running.draining.is_set()
        done = await command(chat, "root", "drain")
        draining = chat.running.draining.is_set()
        chat.gate.opened.set()
        await chat.reads(talk, "Six hens.")

        assert not before
        assert draining
        assert "begins nothing new, finishes its work, and ends" in done


async def test_others_have_no_such_commands(chat_way: ChatWay) -> None:
    async with new_chat(chat_way) as chat, chat.bot(hens(), access=with_admin(chat)):
        refused = [await command(chat, "bob", each) for each in ("pause all", "kill all", "drain")]
        kept_by_resume = await command(chat, "bob", "resume 1a2b")
        helped = await command(chat, "bob", "help")

        assert all("There is no command" in each for each in refused[::2])
        assert "You have no run" in kept_by_resume
        assert "retinue pause" not in helped


async def test_an_admin_pauses_and_resumes_at_the_terminal(sqlite_url: str) -> None:
    play = Play(main=[Reply(text="Good evening.")])
    access = AccessSettings(admins=("terminal:root",))
    async with at_terminal(sqlite_url, play, name="root", access=access) as it:
        it.send("/pause all")
        await it.shows("Paused: the whole bot")
        it.send("Good morning.")
        await it.shows("Your message is kept")
        it.send("/resume all")
        await it.shows("Good evening.")


async def test_an_operator_sees_the_state_of_the_bot(chat_way: ChatWay) -> None:
    async with new_chat(chat_way) as chat, chat.bot(hens(), access=with_admin(chat)):
        talk = await chat.ask("alice", "Count my hens.")
        await chat.reads(talk, "Begun.")
        await chat.stored("Begun.")
        await chat.gate.held(1)
        state = await command(chat, "root", "health")

        assert "0 messages and 0 runs wait" in state
        assert "0 answers and 1 run" in state
        assert "anthropic: answered" in state
        assert "Process" in state


async def test_an_operator_sees_the_state_at_the_terminal(sqlite_url: str) -> None:
    access = AccessSettings(admins=("terminal:root",))
    async with at_terminal(sqlite_url, Play(), name="root", access=access) as it:
        it.send("/health")
        await it.shows("Process")


async def test_an_operator_kills_and_drains_at_the_terminal(sqlite_url: str) -> None:
    """Everything is stopped after a confirmation, and the process ends when it is drained."""
    play = Play(
        main=[call("sessions_spawn", task="Count the hens", label="hens"), Reply(text="Begun.")],
        runs={"Count": [Reply(text="I count the", fault="hang", after_events=4)]},
    )
    access = AccessSettings(admins=("terminal:root",))
    async with at_terminal(sqlite_url, play, name="root", access=access) as it:
        it.send("Count my hens.")
        await it.shows("Begun.")
        await it.until(lambda: bool(it.bot.upkeep.active.by_id), "the run")
        turns = it.bot.upkeep.turns
        await it.until(lambda: not (turns.by_id or turns.ending), "the end of the answer")
        it.send("/kill all")
        await it.shows("This stops 1 run and 0 answers of 1 user in the whole bot")
        going = (await newest_run(it.bot, "Count")).status
        it.send("/kill all yes")
        await it.shows("Stopped 1 run and 0 answers of 1 user")
        await it.until(lambda: not it.bot.upkeep.active.by_id, "the end of the run")
        stopped = (await newest_run(it.bot, "Count")).status
        draining = it.bot.draining.is_set()
        it.send("/drain")
        await it.shows("This process begins nothing new")

        assert going is RunStatus.RUNNING
        assert stopped is RunStatus.CANCELLED
        assert not draining
        assert it.bot.draining.is_set()


async def test_who_is_no_admin_has_no_such_commands_at_the_terminal(sqlite_url: str) -> None:
    access = AccessSettings(admins=("terminal:root",))
    async with at_terminal(sqlite_url, Play(), name="alice", access=access) as it:
        for typed in ("drain", "pause all", "audit", "health"):
            it.send(f"/{typed}")
            await it.shows(f"There is no command /{typed.split()[0]}")

        assert not it.bot.draining.is_set()
