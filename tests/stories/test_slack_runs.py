"""Runs in Slack: cards with buttons, the Home tab, announcements, confirmations, restarts."""

import asyncio
from collections.abc import Callable
from datetime import datetime

import pytest

from bot.conversations.access import AccessSettings
from bot.values import Json, RunStatus
from db import tables
from tests.fakes.anthropic_server import Reply
from tests.fakes.slack.messages import Message
from tests.stories.on_slack import Scene, Way, new_office, on_slack
from tests.stories.stage import Gate, Play, call, card_is_kept, change, newest_run
from tests.stories.test_discord_runs import digging


async def spawned(it: Scene) -> tuple[Message, Message]:
    """Have Alice start the run in a thread; return its root and the card once it is at work."""
    office = it.office
    asked = await it.slack.say(office.alice, office.channel, "Dig, please.", mention=True)
    await it.gate.held(1)
    await it.reads(asked, "Started it.")
    return asked, await it.card(asked, "digging")


def labels(message: Message, viewer: object = None) -> list[str]:
    """Return what can be clicked on a message, by this person or by anybody."""
    return [button.label for button in message.buttons(viewer)]  # type: ignore[arg-type]


async def test_a_run_has_one_card_that_moves_and_its_result_pings_its_owner_only(way: Way) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        asked, card = await spawned(it)
        assert labels(card, office.alice) == ["Stop", "Log", "Send"]
        assert labels(card, office.bob) == []
        it.gate.opened.set()
        result = await it.reads(asked, "Dug.")
        over = await it.card(asked, "digging", "completed")

        assert over is card
        assert card.edits >= 1
        assert labels(card, office.alice) == ["Log"]
        assert result is not card
        assert result.thread_ts == asked.ts
        assert result.pings == [f"<@{office.alice.id}>"]
        assert it.pings() == [f"<@{office.alice.id}>"]


async def test_the_person_goes_on_talking_while_a_run_works(way: Way) -> None:
    play = digging()
    async with new_office() as office, on_slack(way, office, play) as it:
        asked, _ = await spawned(it)
        play.main.append(Reply(text="Nice weather."))
        await it.slack.say(office.alice, office.channel, "Meanwhile: the weather?", thread=asked)
        await it.reads(asked, "Nice weather.")
        it.gate.opened.set()
        await it.reads(asked, "Dug.")


async def test_the_owner_stops_a_run_with_its_button_after_slacks_own_question(way: Way) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        asked, card = await spawned(it)
        declined = await it.slack.click(office.alice, card, "Stop", confirm=False)
        assert not declined.sent
        answer = await (await it.slack.click(office.alice, card, "Stop")).done()
        await it.card(asked, "digging", "stopped")
        await it.reads(asked, "was stopped")

        assert answer.ephemeral
        assert "Stopping" in answer.text()


async def test_log_and_send_work_from_the_card(way: Way) -> None:
    play = digging()
    async with new_office() as office, on_slack(way, office, play) as it:
        asked, card = await spawned(it)
        log = await (await it.slack.click(office.alice, card, "Log")).done()
        form = await (await it.slack.click(office.alice, card, "Send")).done()
        await it.slack.submit(office.alice, form, {"text": "Look below the barn."})
        queued = await it.whispered(office.alice, "Queued")
        it.gate.opened.set()
        await it.reads(asked, "Dug.")

        assert log.ephemeral
        assert "wait_here" in log.text()
        assert queued.thread_ts == asked.ts
        assert "Look below the barn." in str(play.asked[-1]["messages"])


async def test_nobody_else_stops_reads_or_tells_a_run_by_button_or_by_command(way: Way) -> None:
    play = digging()
    async with new_office() as office, on_slack(way, office, play) as it:
        asked, card = await spawned(it)
        run, room = await newest_run(it.bot, "Dig"), office.channel
        refusals = [
            await it.slack.click(office.bob, card, label, force=True) for label in ("Stop", "Log")
        ]
        form = await (await it.slack.click(office.bob, card, "Send", force=True)).done()
        sent = await it.slack.submit(office.bob, form, {"text": "I am Alice."})
        refusals += [
            await it.slack.slash(office.bob, room, "/subagents", words)
            for words in (
                f"stop {run.id}",
                f"log {run.id}",
                f"info {run.id}",
                f"send {run.id} I am Alice.",
            )
        ]
        for refused in refusals:
            await refused.done()
        listed = await (await it.slack.slash(office.bob, room, "/subagents", "list")).done()
        menu = await (await it.slack.slash(office.bob, room, "/subagents", "stop")).done()
        await it.slack.say(office.bob, room, f"!subagents stop {run.id}", thread=asked)
        await it.slack.say(office.bob, room, f"subagents stop {run.id}", thread=asked, mention=True)
        await it.slack.open_home(office.bob)
        home = it.slack.home(office.bob)

        assert all(refused.ephemeral for refused in refusals)
        texts = [*(refused.text() for refused in refusals), *sent.errors.values()]
        lines = {line.replace(run.id, "ID") for text in texts for line in text.splitlines()}
        assert len(texts) == 7
        assert lines == {"You have no run “ID”. /subagents list shows yours."}
        assert "digging" not in listed.text()
        assert "None of your runs is going on" in menu.text()
        assert home is not None
        assert "digging" not in str(home.blocks)
        assert (await newest_run(it.bot, "Dig")).status is RunStatus.RUNNING
        it.gate.opened.set()
        await it.reads(asked, "Dug.")
        assert "I am Alice" not in str(play.asked)


async def test_an_admin_stops_a_run_of_somebody_else(way: Way) -> None:
    async with new_office() as office:
        access = AccessSettings(admins=(f"slack:{office.slack.team.id}:{office.root.id}",))
        async with on_slack(way, office, digging(), access=access) as it:
            asked, _ = await spawned(it)
            run = await newest_run(it.bot, "Dig")
            words = f"stop {run.id}"
            answer = await it.slack.slash(office.root, office.channel, "/subagents", words)
            await answer.done()
            result = await it.reads(asked, "was stopped")
            name = office.root.name
            await it.card(asked, "digging", "stopped by @")

            assert "Stopping" in answer.text()
            assert "It was stopped by an admin." in result.readable()
            assert f"Stopped by @{name}." in result.readable()
            assert result.pings == [f"<@{office.alice.id}>"]


async def test_a_command_that_is_typed_in_a_channel_is_answered_in_private(way: Way) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        asked, _ = await spawned(it)
        for typed, answer in (
            ("subagents list", "digging"),
            ("/subagents usage", "Your usage"),
            ("!subagents info last", "Status: running"),
        ):
            await it.slack.say(office.alice, office.channel, typed, thread=asked, mention=True)
            await it.whispered(office.alice, answer)

        said = str([each.readable() for each in it.slack.said(office.channel)])
        assert "Your usage" not in said
        assert "Status: running" not in said
        it.gate.opened.set()
        await it.reads(asked, "Dug.")


async def test_every_command_answers_its_person_alone_within_slacks_time(way: Way) -> None:
    play = digging()
    play.runs["Shear"] = [call("wait_here"), Reply(text="Shorn.")]
    async with new_office() as office, on_slack(way, office, play) as it:
        await spawned(it)
        run, room = await newest_run(it.bot, "Dig"), office.channel
        said = {
            ("/subagents", "list"): "digging",
            ("/subagents", f"info {run.id}"): "Status: running",
            ("/subagents", f"log {run.id}"): "wait_here",
            ("/subagents", f"send {run.id} Deeper."): "Queued",
            ("/subagents", "usage"): "Your usage",
            ("/subagents", 'spawn --label "second one" Shear'): "Started",
            ("/subagents", 'spawn --label "second Shear'): "quotation mark",
            ("/subagents", "dance"): "is unknown",
            ("/subagents", f"stop {run.id}"): "Stopping",
            ("/retinue", "usage"): "Your usage",
            ("/retinue", "help"): "/subagents list",
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


async def test_the_text_twins_work_in_a_thread_for_their_person_alone(way: Way) -> None:
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


async def asked_to_stop(it: Scene, play: Play) -> tuple[Message, Message]:
    """Have the model want to stop Alice's run; return the thread and the question."""
    asked, _ = await spawned(it)
    run = await newest_run(it.bot, "Dig")
    play.main += [call("sessions_stop", run_id=run.id), Reply(text="I asked you.")]
    await it.slack.say(it.office.alice, it.office.channel, "Please stop it.", thread=asked)
    return asked, await it.reads(asked, "Shall I")


async def test_a_confirmation_names_run_tool_and_arguments_and_takes_one_answer_of_its_owner(
    way: Way,
) -> None:
    play = digging()
    async with new_office() as office, on_slack(way, office, play) as it:
        asked, question = await asked_to_stop(it, play)
        run = await newest_run(it.bot, "Dig")
        assert "sessions_stop" in question.readable()
        assert run.id in question.readable()
        assert labels(question, office.bob) == []
        await it.slack.until(
            lambda: it.slack.session(office.channel, asked.ts) == "suspended", "the session to wait"
        )
        strangers = await (await it.slack.click(office.bob, question, "Yes", force=True)).done()
        assert (await newest_run(it.bot, "Dig")).status is RunStatus.RUNNING
        async with asyncio.TaskGroup() as at_once:
            for _ in range(2):
                at_once.create_task(it.slack.click(office.alice, question, "Yes"))
        await it.whispered(office.alice, "nothing to confirm")
        await it.card(asked, "digging", "stopped")
        await it.slack.until(lambda: not question.buttons(), "the buttons to go")
        await it.slack.until(
            lambda: it.slack.session(office.channel, asked.ts) == "active", "the session to rest"
        )

        assert strangers.ephemeral
        assert "nothing to confirm" in strangers.text()
        told = [each.readable() for each in it.slack.ephemerals(office.alice)]
        assert sum("The answer follows" in text for text in told) == 1
        assert sum("nothing to confirm" in text for text in told) == 1
        assert "alice said yes" in question.readable()


async def test_a_confirmation_that_is_answered_in_words_loses_its_buttons(way: Way) -> None:
    play = digging()
    async with new_office() as office, on_slack(way, office, play) as it:
        asked, question = await asked_to_stop(it, play)
        await it.slack.say(office.bob, office.channel, "yes", thread=asked, mention=True)
        await it.slack.say(office.alice, office.channel, "no", thread=asked)
        await it.whispered(office.alice, "Not done")
        await it.slack.until(lambda: not question.buttons(), "the buttons to go")

        assert (await newest_run(it.bot, "Dig")).status is RunStatus.RUNNING
        it.gate.opened.set()


@pytest.mark.parametrize(
    "change_it",
    [
        lambda now: {"arguments": {"run_id": "all"}},
        lambda now: {"expires_at": now},
    ],
    ids=["changed", "expired"],
)
async def test_an_expired_or_changed_confirmation_is_refused(
    way: Way, change_it: Callable[[datetime], Json]
) -> None:
    play = digging()
    async with new_office() as office, on_slack(way, office, play) as it:
        _, question = await asked_to_stop(it, play)
        await change(it.bot, tables.approvals, **change_it(it.bot.upkeep.now()))
        refused = await (await it.slack.click(office.alice, question, "Yes")).done()

        assert refused.ephemeral
        assert "nothing to confirm" in refused.text()
        assert (await newest_run(it.bot, "Dig")).status is RunStatus.RUNNING
        it.gate.opened.set()


async def test_a_card_from_before_a_restart_is_clicked_and_goes_on_in_its_message(
    way: Way,
) -> None:
    gate = Gate()
    play = digging()
    async with new_office() as office:
        async with on_slack(way, office, play, gate=gate) as it:
            asked, card = await spawned(it)
            form = await (await it.slack.click(office.alice, card, "Send")).done()
            await card_is_kept(it.bot, "Dig")
        play.runs["Dig"] = [call("wait_here"), Reply(text="Dug after all.")]
        async with on_slack(way, office, play, gate=gate) as it:
            await gate.held(1)
            await it.slack.submit(office.alice, form, {"text": "Hurry."})
            await it.whispered(office.alice, "Queued")
            strangers = await it.slack.click(office.bob, card, "Stop", force=True)
            await strangers.done()
            log = await (await it.slack.click(office.alice, card, "Log")).done()
            gate.opened.set()
            await it.reads(asked, "Dug after all.")
            over = await it.card(asked, "digging", "completed")

            assert "digging" not in strangers.text()
            assert "wait_here" in log.text()
            assert over is card
            assert [each for each in it.said(asked) if each.buttons()] == [card]
            results = [each for each in it.said(asked) if "Dug after all." in each.readable()]
            assert len(results) == 1


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
