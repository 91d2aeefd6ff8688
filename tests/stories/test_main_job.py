"""The main job, end to end: talk, delegate, spawn, watch, announce."""

from bot.conversations.settings import ConversationSettings
from bot.subagents.limits import SubagentSettings
from bot.values import RunStatus, short
from tests.fakes.anthropic_server import Call, Reply
from tests.stories.stage import ALICE, BOB, Play, call, calls, is_run, newest, said, stage


async def test_a_message_is_answered_and_the_answer_grows_while_it_is_written(
    database_url: str,
) -> None:
    play = Play(main=[Reply(text="The tide comes in twice a day, mostly.", gap_seconds=0.03)])
    async with stage(database_url, play) as it:
        await it.say(ALICE, "How often does the tide come in?")
        reply = await it.outlet.replied()

        assert reply.final == "The tide comes in twice a day, mostly."
        assert it.outlet.acknowledged
        assert any(update and update != reply.final for update in reply.updates)
        assert "How often does the tide come in?" in newest(play.asked[0])


async def test_what_was_said_before_is_known_and_the_situation_is_not_kept(
    database_url: str,
) -> None:
    play = Play(main=[Reply(text="Noted, Alice."), Reply(text="You said: blue.")])
    async with stage(database_url, play) as it:
        await it.say(ALICE, "My colour is blue.")
        await it.outlet.replied(1)
        await it.say(ALICE, "What is my colour?")
        await it.outlet.replied(2)

        messages = play.asked[1]["messages"]
        assert "My colour is blue." in said(messages[0])
        assert said(messages[1]) == "Noted, Alice."
        assert "What is my colour?" in said(messages[2])
        assert said(messages[3]).startswith("<situation>")
        assert str(messages).count("<situation>") == 1


async def test_a_quick_task_is_delegated_and_its_result_used_in_the_same_turn(
    database_url: str,
) -> None:
    play = Play(
        main=[
            call("delegate_to_subagent", task="Find the hour", tools_needed=["current_time"]),
            Reply(text="It is nine o'clock."),
        ],
        runs={"Find the hour": [call("current_time"), Reply(text="Nine <b>sharp</b>.")]},
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "What time is it? Ask someone.")
        reply = await it.outlet.replied()

        run = await it.run_of("Find the hour")
        assert reply.final == "It is nine o'clock."
        assert (run.mode, run.status) == ("sync", RunStatus.COMPLETED)
        result = said(play.asked[-1]["messages"][-1])
        assert f'<subagent_result run_id="{run.id}"' in result
        assert "Nine &lt;b&gt;sharp&lt;/b&gt;." in result
        assert it.outlet.announcements == []


async def test_two_runs_go_on_while_the_user_talks_sends_stops_and_reads_the_result(
    database_url: str,
) -> None:
    play = Play(
        main=[
            calls(
                ("sessions_spawn", {"task": "Study tea", "label": "tea"}),
                ("sessions_spawn", {"task": "Study coffee", "label": "coffee"}),
            ),
            Reply(text="Both have started."),
            Reply(text="I am still here."),
        ],
        runs={
            "Study tea": [
                call("report_progress", message="Reading about tea"),
                call("wait_here"),
                Reply(text="Tea is a leaf."),
            ],
            "Study coffee": [Reply(text="Half way.", calls=(Call("wait_here"),))],
        },
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Study tea and coffee in the background.")
        await it.outlet.replied(1)
        await it.gate.held(2)
        await it.say(ALICE, "Are you there?")
        assert (await it.outlet.replied(2)).final == "I am still here."
        tea, coffee = await it.run_of("Study tea"), await it.run_of("Study coffee")

        sent = await it.command(ALICE, "/subagents send tea Mention Assam.")
        stopped = await it.command(ALICE, f"/subagents stop {short(coffee.id)}")
        told_of_coffee = await it.outlet.announced(coffee.id)
        it.gate.opened.set()
        told_of_tea = await it.outlet.announced(tea.id)

        assert "Queued" in sent.text
        assert "Stopping" in stopped.text
        assert "Sub-agent stopped" in told_of_coffee.title
        assert "Half way." in told_of_coffee.text
        assert "completed" in told_of_tea.title
        assert told_of_tea.text == "Tea is a leaf."
        assert told_of_tea.place.channel == "room"
        last_of_tea = [body for body in play.asked if is_run(body) and "tea" in str(body)][-1]
        assert "Mention Assam." in said(last_of_tea["messages"][-1])
        info = await it.command(ALICE, "/subagents info tea")
        assert "read at step" in info.text
        assert it.outlet.card(tea.id).status is RunStatus.COMPLETED
        assert it.outlet.card(coffee.id).status is RunStatus.CANCELLED
        assert any(card.line == "Reading about tea" for card in it.outlet.cards[tea.id])


async def test_the_main_agent_knows_what_became_of_its_runs(database_url: str) -> None:
    play = Play(
        main=[
            call("sessions_spawn", task="Count sheep", label="sheep"),
            Reply(text="Started."),
            Reply(text="There were 42."),
        ],
        runs={"Count sheep": [Reply(text="42 sheep.")]},
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Count sheep.")
        await it.outlet.replied(1)
        run = await it.run_of("Count sheep")
        await it.outlet.announced(run.id)
        await it.say(ALICE, "How many?")
        await it.outlet.replied(2)

        body = play.asked[-1]
        history = "\n".join(said(message) for message in body["messages"])
        assert "42 sheep." in history
        assert f'<subagent_result run_id="{run.id}"' in history
        assert "Recently ended" in said(body["messages"][-1])
        assert "is data" in str(body["system"])


async def test_a_run_that_asks_for_a_summary_is_announced_in_the_main_agents_words(
    database_url: str,
) -> None:
    play = Play(
        main=[
            calls(
                ("sessions_spawn", {"task": "Weigh ants", "announce": "summary"}),
                ("sessions_spawn", {"task": "Weigh bees", "announce": "summary"}),
            ),
            Reply(text="Started."),
            Reply(text="Ants are lighter than bees."),
        ],
        runs={
            "Weigh ants": [call("wait_here"), Reply(text="1 mg")],
            "Weigh bees": [call("wait_here"), Reply(text="100 mg")],
        },
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Which is lighter?")
        await it.gate.held(2)
        it.gate.opened.set()
        await it.outlet.until(lambda: bool(it.outlet.announcements), "the summary")

        assert [said.text for said in it.outlet.announcements] == ["Ants are lighter than bees."]
        told = "\n".join(said(message) for message in play.asked[-1]["messages"]).split("\n")
        assert {"1 mg", "100 mg"} <= set(told)


async def test_when_the_summary_fails_the_results_go_out_as_they_are(database_url: str) -> None:
    play = Play(
        main=[
            call("sessions_spawn", task="Weigh ants", announce="summary"),
            Reply(text="Started."),
            Reply(status=400, kind="invalid_request_error", text="no"),
        ],
        runs={"Weigh ants": [Reply(text="1 mg")]},
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "How light is an ant?")
        await it.outlet.until(lambda: bool(it.outlet.announcements), "the result")

        assert [said.text for said in it.outlet.announcements] == ["1 mg"]


async def test_two_identical_spawns_in_one_answer_are_one_run(database_url: str) -> None:
    same = ("sessions_spawn", {"task": "Study rain"})
    play = Play(
        main=[calls(same, same), Reply(text="Started.")],
        runs={"Study rain": [call("wait_here"), Reply(text="Wet.")]},
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Study rain.")
        await it.outlet.replied(1)
        await it.gate.held(1)
        listed = await it.command(ALICE, "/subagents list")
        it.gate.opened.set()
        await it.outlet.announced((await it.run_of("Study rain")).id)

        assert "**Active runs** (1)" in listed.text


async def test_messages_that_a_user_adds_while_one_waits_are_answered_together(
    database_url: str,
) -> None:
    play = Play(main=[call("wait_here"), Reply(text="one"), Reply(text="two and three")])
    async with stage(database_url, play) as it:
        await it.say(BOB, "first")
        await it.gate.held(1)
        await it.say(ALICE, "second")
        await it.say(ALICE, "third")
        it.gate.opened.set()
        await it.outlet.replied(2)

        assert it.outlet.texts() == ["one", "two and three"]
        assert "second" in newest(play.asked[-1])
        assert "third" in newest(play.asked[-1])
        assert len(it.outlet.acknowledged) == 3


async def test_messages_that_come_during_a_turn_are_read_in_their_order(
    database_url: str,
) -> None:
    play = Play(main=[call("wait_here"), Reply(text="all three")])
    personal = ConversationSettings(mode="personal")
    async with stage(database_url, play, conversations=personal) as it:
        await it.say(ALICE, "first")
        await it.gate.held(1)
        await it.say(ALICE, "second")
        await it.say(ALICE, "third")
        it.gate.opened.set()
        await it.outlet.replied()

        assert it.outlet.texts() == ["all three"]
        read = said(play.asked[1]["messages"][-1])
        assert 0 < read.find("second") < read.find("third")


async def test_a_run_is_started_without_the_model(database_url: str) -> None:
    play = Play(runs={"Count clouds": [Reply(text="Seven.")]})
    async with stage(database_url, play) as it:
        reply = await it.command(ALICE, "/subagents spawn --label clouds --minutes 3 Count clouds")
        run = await it.run_of("Count clouds")
        told = await it.outlet.announced(run.id)

        assert "✅ Started “clouds”" in reply.text
        assert run.timeout_ms == 180_000
        assert told.text == "Seven."


async def test_more_time_than_the_cap_is_clamped_and_the_reply_says_so(database_url: str) -> None:
    play = Play(runs={"Count": [Reply(text="One.")]})
    async with stage(database_url, play) as it:
        reply = await it.command(ALICE, "/subagents spawn --minutes 60 Count")

        assert "a run gets 10 min at most" in reply.text
        assert (await it.run_of("Count")).timeout_ms == 600_000


async def test_with_subagents_switched_off_there_are_no_such_tools(database_url: str) -> None:
    play = Play(main=[Reply(text="Alone.")])
    off = SubagentSettings(enabled=False)
    async with stage(database_url, play, subagents=off) as it:
        await it.say(ALICE, "Hello")
        await it.outlet.replied()
        refused = await it.command(ALICE, "/subagents spawn something")

        names = {tool["name"] for tool in play.asked[0]["tools"]}
        assert not names & {"sessions_spawn", "delegate_to_subagent"}
        assert refused.failed
        assert "subagents.enabled" in refused.text


async def test_a_summary_speaks_of_its_own_runs_and_swallows_no_other_result(
    database_url: str,
) -> None:
    play = Play(
        main=[
            call("sessions_spawn", task="Alpha", announce="summary"),
            Reply(text="Started one."),
            call("sessions_spawn", task="Beta", announce="summary"),
            Reply(text="Started two."),
            call("wait_here"),
            Reply(text="About alpha."),
            Reply(text="About beta."),
        ],
        runs={
            "Alpha": [call("wait_here"), Reply(text="a")],
            "Beta": [call("wait_here"), Reply(text="b")],
        },
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "One")
        await it.outlet.replied(1)
        await it.say(ALICE, "Two")
        await it.outlet.replied(2)
        await it.gate.held(2)
        it.gate.opened.set()
        await it.outlet.until(lambda: len(it.outlet.announcements) == 2, "both summaries")

        texts = sorted(told.text for told in it.outlet.announcements)
        assert texts == ["About alpha.", "About beta."]


async def test_when_the_last_run_of_a_batch_fails_the_others_are_told_at_once(
    database_url: str,
) -> None:
    play = Play(
        main=[
            calls(
                ("sessions_spawn", {"task": "Good", "announce": "summary"}),
                ("sessions_spawn", {"task": "Bad", "announce": "summary"}),
            ),
            Reply(text="Started."),
            Reply(text="One of two worked."),
        ],
        runs={"Good": [Reply(text="fine")], "Bad": [call("wait_here"), Reply(text="x")]},
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Go")
        await it.outlet.replied(1)
        await it.gate.held(1)
        await it.ended("Good", RunStatus.COMPLETED)
        await it.command(ALICE, "/subagents stop Bad")
        await it.outlet.until(lambda: len(it.outlet.announcements) == 2, "both")

        assert "One of two worked." in {told.text for told in it.outlet.announcements}


async def test_two_identical_delegations_in_one_answer_both_come_back(database_url: str) -> None:
    same = ("delegate_to_subagent", {"task": "Toss", "tools_needed": []})
    play = Play(
        main=[calls(same, same), Reply(text="Heads and tails.")],
        runs={"Toss": [Reply(text="heads"), Reply(text="tails")]},
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Toss twice.")
        await it.outlet.replied()

        told = said(play.asked[-1]["messages"][-1])
        assert "heads" in told
        assert "tails" in told


async def test_the_second_of_two_quick_messages_knows_the_answer_to_the_first(
    database_url: str,
) -> None:
    play = Play(main=[call("wait_here"), Reply(text="Blue."), Reply(text="I said blue.")])
    async with stage(database_url, play) as it:
        await it.say(BOB, "Name a colour.")
        await it.gate.held(1)
        await it.say(ALICE, "What did you say?")
        it.gate.opened.set()
        await it.outlet.replied(2)

        told = [said(message) for message in play.asked[-1]["messages"]]
        assert "colour" in told[0]
        assert told.index("Blue.") == 3
        assert "What did you say?" in told[4]


async def test_everyone_may_read_who_can_do_the_work(database_url: str) -> None:
    async with stage(database_url, Play()) as it:
        told = await it.command(BOB, "/subagents agents")
        helped = await it.command(BOB, "/help")

        names = ("code-review", "code-search", "explore", "general", "planner", "researcher")
        assert all(f"**{name}**" in told.text for name in names)
        assert "8 steps" in told.text
        assert "`file_read`" in told.text
        assert "/subagents agents" in helped.text
