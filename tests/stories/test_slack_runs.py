"""Runs in Slack, beside what is the same in every chat: the Home tab, menus, its own question."""

from bot.values import RunStatus
from tests.fakes.anthropic_server import Reply
from tests.fakes.slack.messages import Message
from tests.stories.on_slack import Scene, Way, new_office, on_slack
from tests.stories.stage import Play, call, newest_run
from tests.stories.test_chat_runs import digging


async def spawned(it: Scene) -> tuple[Message, Message]:
    """Have Alice start the run in a thread; return its root and the card once it is at work."""
    office = it.office
    asked = await it.slack.say(office.alice, office.channel, "Dig, please.", mention=True)
    await it.gate.held(1)
    await it.reads(asked, "Started it.")
    return asked, await it.card(asked, "digging")


def labels(message: Message, viewer: object = None) -> list[str]:
    """Return what can be clicked on a message, by this user or by anybody."""
    return [button.label for button in message.buttons(viewer)]  # type: ignore[arg-type]


async def test_only_the_owner_sees_the_buttons_of_a_card_and_the_result_is_in_its_thread(
    way: Way,
) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        asked, card = await spawned(it)
        assert labels(card, office.alice) == ["Stop", "Log", "Send"]
        assert labels(card, office.bob) == []
        it.gate.opened.set()
        result = await it.reads(asked, "Dug.")
        over = await it.card(asked, "digging", "completed")

        assert labels(over, office.alice) == ["Log"]
        assert result.thread_ts == asked.ts


async def test_a_stop_that_is_declined_at_slacks_own_question_is_not_sent(way: Way) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        asked, card = await spawned(it)
        declined = await it.slack.click(office.alice, card, "Stop", confirm=False)
        it.gate.opened.set()
        await it.reads(asked, "Dug.")

        assert not declined.sent


async def test_a_stranger_sees_nothing_of_a_run_in_menu_and_home_tab(way: Way) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        asked, _ = await spawned(it)
        run, room = await newest_run(it.bot, "Dig"), office.channel
        menu = await (await it.slack.slash(office.bob, room, "/subagents", "stop")).done()
        await it.slack.say(office.bob, room, f"!subagents stop {run.id}", thread=asked)
        await it.slack.say(office.bob, room, f"subagents stop {run.id}", thread=asked, mention=True)
        await it.slack.open_home(office.bob)
        home = it.slack.home(office.bob)

        assert "None of your runs is going on" in menu.text()
        assert home is not None
        assert "digging" not in str(home.blocks)
        assert (await newest_run(it.bot, "Dig")).status is RunStatus.RUNNING
        it.gate.opened.set()
        await it.reads(asked, "Dug.")


async def test_commands_are_answered_within_slacks_time_and_mistakes_explained(way: Way) -> None:
    play = digging()
    play.runs["Shear"] = [call("wait_here"), Reply(text="Shorn.")]
    async with new_office() as office, on_slack(way, office, play) as it:
        await spawned(it)
        room = office.channel
        said = {
            ("/subagents", 'spawn --label "second one" Shear'): "Started",
            ("/subagents", 'spawn --label "second Shear'): "quotation mark",
            ("/subagents", "dance"): "is unknown",
            ("/retinue", ""): "/subagents list",
            ("/retinue", "new"): "in a thread",
        }
        for (command, text), words in said.items():
            answer = await (await it.slack.slash(office.alice, room, command, text)).done()
            assert words in answer.text(), (command, text)
            assert answer.ephemeral, (command, text)
        it.gate.opened.set()
        result = await it.reads(room, "Shorn.")

        assert result.pings == [f"<@{office.alice.id}>"]
        await it.acknowledged()


async def test_the_text_twins_work_in_a_thread_for_their_user_alone(way: Way) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        asked, _ = await spawned(it)
        room = office.channel
        await it.slack.say(office.alice, room, "!subagents list", thread=asked)
        listed = await it.whispered(office.alice, "digging")
        await it.slack.say(office.alice, room, "subagents info last", thread=asked, mention=True)
        info = await it.whispered(office.alice, "Status: running")
        await it.slack.say(office.alice, room, "!subagents stop last", thread=asked)
        await it.whispered(office.alice, "Stopping")
        await it.card(asked, "digging", "stopped")

        assert listed.thread_ts == info.thread_ts == asked.ts
        assert it.slack.ephemerals(office.bob) == []


async def test_a_command_without_a_run_offers_a_menu_of_ones_own(way: Way) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        asked, _ = await spawned(it)
        menu = await (
            await it.slack.slash(office.alice, office.channel, "/subagents", "log")
        ).done()
        [question] = menu.posts
        [button] = question.buttons(office.alice)
        chosen = await it.slack.click(
            office.alice,
            question,
            button.action_id,
            choice=button.element["options"][0]["value"],
        )
        await chosen.done()
        send = await (
            await it.slack.slash(office.alice, office.channel, "/subagents", "send last")
        ).done()
        await it.slack.submit(office.alice, send, {"text": "Deeper."})
        await it.whispered(office.alice, "Queued")
        it.gate.opened.set()
        await it.reads(asked, "Dug.")

        assert menu.ephemeral
        assert "wait_here" in chosen.text()


async def test_the_home_tab_shows_ones_own_runs_usage_and_agents_and_stops_and_reads_them(
    way: Way,
) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        asked, _ = await spawned(it)
        await it.slack.open_home(office.alice)
        home = it.slack.home(office.alice)
        assert home is not None
        shown = str(home.blocks)
        log = await (await it.slack.click(office.alice, home, "Log")).done()
        stop = await (await it.slack.click(office.alice, home, "Stop")).done()
        await it.card(asked, "digging", "stopped")
        await it.slack.open_home(office.alice)
        after = it.slack.home(office.alice)

        assert "digging" in shown
        assert "Your usage" in shown
        assert "general" in shown
        assert log.view is not None
        assert "wait_here" in str(log.view.blocks)
        assert stop.view is not None
        assert "Stopping" in str(stop.view.blocks)
        assert after is not None
        assert "stopped" in str(after.blocks)


async def test_the_session_of_a_thread_waits_while_a_confirmation_is_open(way: Way) -> None:
    play = digging()
    async with new_office() as office, on_slack(way, office, play) as it:
        asked, question = await asked_to_stop(it, play)
        assert labels(question, office.bob) == []
        await it.slack.until(
            lambda: it.slack.session(office.channel, asked.ts) == "suspended", "the session to wait"
        )
        await it.slack.click(office.alice, question, "Yes")
        await it.card(asked, "digging", "stopped")
        await it.slack.until(lambda: not question.buttons(), "the buttons to go")
        await it.slack.until(
            lambda: it.slack.session(office.channel, asked.ts) == "active", "the session to rest"
        )

        assert "alice said yes" in question.readable()


async def asked_to_stop(it: Scene, play: Play) -> tuple[Message, Message]:
    """Have the model want to stop Alice's run; return the thread and the question."""
    asked, _ = await spawned(it)
    run = await newest_run(it.bot, "Dig")
    play.main += [call("sessions_stop", run_id=run.id), Reply(text="I asked you.")]
    await it.slack.say(it.office.alice, it.office.channel, "Please stop it.", thread=asked)
    question = await it.reads(asked, "Shall I")
    # Then it is stored in which message it stands.
    await it.reads(asked, "I asked you.")
    return asked, question


async def test_the_text_of_a_run_can_do_nothing_to_the_room(way: Way) -> None:
    async with new_office() as office:
        group = office.slack.add_usergroup("farmers")
        evil = (
            f"<!channel> <!here> <!everyone> <!subteam^{group}> <@{office.bob.id}> @channel @here "
            "&lt;!channel&gt; [sheep.example](https://evil.example) "
            "<https://evil.example|free sheep> "
            "```\n<!channel>\n``` https://evil.example/ \u202e gnirts"
        )
        play = digging(result=evil)
        play.main[0] = call("sessions_spawn", task="Dig", label="digging <!channel> ```")
        play.main[1] = Reply(text=f"Started it. {evil}")
        async with on_slack(way, office, play) as it:
            asked = await it.slack.say(office.alice, office.channel, "Dig.", mention=True)
            await it.gate.held(1)
            await it.reads(asked, "Started it.")
            await it.card(asked, "digging")
            it.gate.opened.set()
            await it.card(asked, "digging", "completed")
            await it.slack.until(it.pings, "the announcement")
            await it.slack.open_home(office.alice)

            assert it.pings() == [f"<@{office.alice.id}>"]
            assert [link for each in it.said(asked) for link in each.masked_links] == []
            shown = "".join(each.readable() for each in it.said(asked))
            assert "[sheep.example] (https://evil.example)" in shown
            posts = it.slack.called("chat.postMessage")
            assert posts
            assert all(call.args["unfurl_links"] in (False, "false", "0", 0) for call in posts)
