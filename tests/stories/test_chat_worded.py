"""Progress in words: a sentence now and then for all runs of a place, never after a result."""

from datetime import timedelta

from bot.subagents.limits import SubagentSettings
from bot.values import Json
from db import tables
from tests.fakes.anthropic_server import Reply
from tests.stories.chats import Chat, ChatWay, Talk, new_chat
from tests.stories.stage import Gate, Play, call, calls, change, is_run, newest_run

SPAWN = "sessions_spawn"
WORDED = SubagentSettings(progress="worded")
SENTENCE = "Still digging, half of it is done."


def digging(*further: Reply) -> Play:
    """Return a play in which a run reports, waits at the gate, and ends."""
    report = ("report_progress", {"message": "Half of it is done."})
    return Play(
        main=[
            call(SPAWN, task="Dig for the secret", label="digging", progress="worded"),
            Reply(text="Started it."),
            *further,
        ],
        runs={"secret": [calls(report, ("wait_here", {})), Reply(text="Dug.")]},
    )


async def let_pass(chat: Chat, minutes: float = 3) -> None:
    """Let the runs and sentences so far be older, and do the regular duties."""
    then = chat.running.upkeep.now() - timedelta(minutes=minutes)
    await change(chat.running, tables.subagent_runs, started_at=then)
    await change(chat.running, tables.sentences, begun_at=then)
    await look(chat)


async def look(chat: Chat) -> None:
    """Do the regular duties."""
    for duty in chat.running.upkeep.further():
        await duty()


async def begun(chat: Chat) -> Talk:
    """Let Alice start the run of the play in a thread, and wait until it is at the gate."""
    talk = await chat.ask("alice", "Dig, please.")
    await chat.gate.held(1)
    await chat.reads(talk, "Started it.")
    await chat.card(talk, "digging")
    return talk


def asked_for_sentences(play: Play) -> list[Json]:
    return [body for body in play.asked if "how far their runs are" in str(body["system"])]


def about(chat: Chat, talk: Talk, words: str) -> int:
    return len([text for text in chat.texts(talk) if words in text])


async def test_a_worded_run_has_a_sentence_in_its_place_from_public_facts_without_a_ping(
    chat_way: ChatWay,
) -> None:
    play = digging(Reply(text=SENTENCE))
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await begun(chat)
        await look(chat)
        assert about(chat, talk, SENTENCE) == 0
        await let_pass(chat)
        sentence = await chat.reads(talk, SENTENCE)
        await look(chat)
        chat.gate.opened.set()
        result = await chat.reads(talk, "Dug.")
        said = await chat.said(talk)

        assert sentence.pings == frozenset()
        assert chat.pings() == ["alice"]
        assert said.index(sentence) < said.index(result)
        assert about(chat, talk, SENTENCE) == 1
        (asked,) = asked_for_sentences(play)
        assert not asked.get("tools")
        assert "Half of it is done." in str(asked["messages"])
        assert "digging" in str(asked["messages"])
        assert "secret" not in str(asked["messages"])


async def test_runs_of_one_batch_share_a_sentence(chat_way: ChatWay) -> None:
    play = Play(
        main=[
            calls(
                (SPAWN, {"task": "Dig", "label": "digging"}),
                (SPAWN, {"task": "Sow", "label": "sowing"}),
            ),
            Reply(text="Started both."),
            Reply(text="Both are at it."),
        ],
        runs={word: [call("wait_here"), Reply(text=f"{word}: done.")] for word in ("Dig", "Sow")},
    )
    async with new_chat(chat_way) as chat, chat.bot(play, subagents=WORDED):
        talk = await chat.ask("alice", "Dig and sow, please.")
        await chat.gate.held(2)
        await chat.reads(talk, "Started both.")
        await let_pass(chat)
        await chat.reads(talk, "Both are at it.")
        await look(chat)
        chat.gate.opened.set()
        for word in ("Dig", "Sow"):
            await chat.reads(talk, f"{word}: done.")

        (asked,) = asked_for_sentences(play)
        assert "“digging”" in str(asked["messages"])
        assert "“sowing”" in str(asked["messages"])
        assert about(chat, talk, "Both are at it.") == 1


async def test_without_the_setting_no_sentence_is_written(chat_way: ChatWay) -> None:
    play = digging()
    play.main[0] = call(SPAWN, task="Dig for the secret", label="digging")
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await begun(chat)
        await let_pass(chat)
        chat.gate.opened.set()
        await chat.reads(talk, "Dug.")

        assert asked_for_sentences(play) == []


async def test_a_sentence_whose_run_ends_while_it_is_written_is_not_posted(
    chat_way: ChatWay,
) -> None:
    play = digging()
    ended: list[bool] = []

    def script(body: Json) -> Reply:
        if not is_run(body) and "how far their runs are" in str(body["system"]):
            chat.gate.opened.set()
            ended.append(True)
            return Reply(text=SENTENCE, latency_seconds=2.0)
        return play(body)

    async with new_chat(chat_way) as chat, chat.bot(script):
        talk = await begun(chat)
        await let_pass(chat)
        await chat.reads(talk, "Dug.")
        run = await newest_run(chat.running, "secret")

        assert ended == [True]
        assert run.status.final
        assert about(chat, talk, SENTENCE) == 0


async def test_after_a_restart_no_sentence_is_repeated(chat_way: ChatWay) -> None:
    gate = Gate()
    play = digging(Reply(text=SENTENCE))
    async with new_chat(chat_way) as chat:
        async with chat.bot(play, gate=gate):
            talk = await begun(chat)
            await let_pass(chat)
            await chat.reads(talk, SENTENCE)
        play.runs["secret"] = [call("wait_here"), Reply(text="Dug.")]
        async with chat.bot(play, gate=gate):
            await gate.held(1)
            await look(chat)
            assert len(asked_for_sentences(play)) == 1
            gate.opened.set()
            await chat.reads(talk, "Dug.")

            assert about(chat, talk, SENTENCE) == 1
