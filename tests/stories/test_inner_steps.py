"""A turn that waits for a subagent: its steps are seen, told as events, and can be stopped."""

from pathlib import Path

import pytest

from bot.events import RunEvent, SubAgentEnd, SubAgentEvent, SubAgentProgress, SubAgentStart
from bot.platforms.base import CardStep
from bot.subagents import cards
from bot.values import RunStatus, StepState, short
from skills.files.settings import WorkspaceSettings
from tests.fakes.anthropic_server import Reply
from tests.stories.on_discord import new_server, on_discord
from tests.stories.on_slack import Way, new_office, on_slack
from tests.stories.stage import (
    ALICE,
    ROOM,
    Play,
    Stage,
    call,
    calls,
    card_is_kept,
    newest_run,
    said,
    stage,
)

QUERY = {"query": "where barns are counted"}


def searching(*answers: Reply) -> Play:
    """Return a play in which the main agent has code searched, and the search answers so."""
    return Play(
        main=[call("code_search", **QUERY), Reply(text="In barn.py.")],
        runs={"where barns are counted": list(answers)},
    )


def in_folder(folder: Path) -> WorkspaceSettings:
    return WorkspaceSettings(folder=str(folder))


def heard_by(it: Stage) -> list[RunEvent]:
    """Return where all further events are noted."""
    heard: list[RunEvent] = []
    it.bot.events.subscribe(RunEvent, heard.append)
    return heard


@pytest.fixture
def no_card_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no card appear because time passes: a machine with much to do takes longer."""
    monkeypatch.setattr(cards, "QUICK_SECONDS", 3600.0)


@pytest.mark.usefixtures("no_card_of_itself")
async def test_the_steps_of_a_subagent_hang_below_its_card_in_the_place_of_the_turn(
    database_url: str, tmp_path: Path
) -> None:
    look = calls(("glob", {"pattern": "*.py"}), ("grep", {"pattern": "("}))
    play = searching(look, call("file_list"), Reply(text="barn.py, line 3."))
    async with stage(database_url, play, workspaces=in_folder(tmp_path)) as it:
        await it.say(ALICE, "Where are barns counted?")
        reply = await it.outlet.replied()
        run = await it.run_of("where barns are counted")

        first, last = it.outlet.cards[run.id][0], it.outlet.card(run.id)
        assert reply.final == "In barn.py."
        assert (first.place, first.owner, first.awaited) == (ROOM, ALICE, True)
        assert first.steps[0].state is StepState.RUNNING
        assert last.status is RunStatus.COMPLETED
        assert [(step.tool, step.state) for step in last.steps] == [
            ("glob", StepState.DONE),
            ("grep", StepState.FAILED),
            ("file_list", StepState.DONE),
        ]
        assert it.outlet.announcements == []


@pytest.mark.usefixtures("no_card_of_itself")
async def test_a_subagent_that_answers_at_once_gets_no_card(database_url: str) -> None:
    play = searching(Reply(text="barn.py, line 3."))
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Where are barns counted?")
        await it.outlet.replied()

        assert (await it.run_of("where barns")).id not in it.outlet.cards


async def test_one_that_thinks_for_long_before_its_first_step_gets_a_card(
    database_url: str,
) -> None:
    play = searching(Reply(text="never", fault="hang"))
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Where are barns counted?")
        await it.server.received(2)
        run = await it.run_of("where barns")
        card = await it.outlet.card_shows(run.id, RunStatus.RUNNING)
        await it.command(ALICE, f"/subagents stop {short(run.id)}")
        await it.outlet.card_shows(run.id, RunStatus.CANCELLED)

        assert card.steps == ()


async def test_what_goes_on_inside_is_told_in_order_to_whoever_listens(
    database_url: str, tmp_path: Path
) -> None:
    play = searching(call("file_list"), Reply(text="barn.py, line 3."))
    async with stage(database_url, play, workspaces=in_folder(tmp_path)) as it:
        heard = heard_by(it)
        await it.say(ALICE, "Where are barns counted?")
        await it.outlet.replied()
        run = await it.run_of("where barns")

        inner = [event for event in heard if isinstance(event, SubAgentEvent)]
        begin, *between, end = inner
        assert isinstance(begin, SubAgentStart)
        assert isinstance(end, SubAgentEnd)
        assert {(event.run_id, event.agent, event.call) for event in inner} == {
            (run.id, "code-search", "1.0")
        }
        assert {event.parent for event in inner} == {run.batch_id}
        assert begin.input == QUERY
        assert [e.event.part for e in between if isinstance(e, SubAgentProgress)] == [
            "step",
            "tool",
            "tool_end",
            "step",
        ]
        assert (end.status, end.result) == (RunStatus.COMPLETED, "barn.py, line 3.")


async def test_a_background_run_is_nobodys_inner_run(database_url: str) -> None:
    play = Play(runs={"Count": [call("current_time"), Reply(text="Seven.")]})
    async with stage(database_url, play) as it:
        heard = heard_by(it)
        await it.command(ALICE, "/subagents spawn Count")
        await it.outlet.announced((await it.run_of("Count")).id)

        assert not any(isinstance(event, SubAgentEvent) for event in heard)


async def test_stopped_on_the_way_it_ends_stopped_and_the_turn_goes_on(
    database_url: str, tmp_path: Path
) -> None:
    play = searching(call("file_list"), Reply(text="never", fault="hang"))
    async with stage(database_url, play, workspaces=in_folder(tmp_path)) as it:
        heard = heard_by(it)
        await it.say(ALICE, "Where are barns counted?")
        await it.server.received(3)
        run = await it.run_of("where barns")
        answer = await it.command(ALICE, f"/subagents stop {short(run.id)}")
        reply = await it.outlet.replied()

        assert (await it.run_of("where barns")).status is RunStatus.CANCELLED
        assert reply.final == "In barn.py."
        assert 'status="stopped"' in said(play.asked[-1]["messages"][-1])
        assert it.outlet.card(run.id).status is RunStatus.CANCELLED
        assert it.outlet.announcements == []
        assert "Stopping" in answer.text
        assert "follows" not in answer.text
        ends = [event for event in heard if isinstance(event, SubAgentEnd)]
        assert [end.status for end in ends] == [RunStatus.CANCELLED]


async def test_a_step_that_is_cut_off_by_a_stop_is_shown_as_failed(database_url: str) -> None:
    play = Play(
        main=[
            call("delegate_to_subagent", task="Wait", tools_needed=["wait_here"]),
            Reply(text="All right."),
        ],
        runs={"Wait": [call("wait_here")]},
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Have somebody wait.")
        await it.gate.held(1)
        run = await it.run_of("Wait")
        assert it.outlet.card(run.id).tool == "wait_here"
        await it.command(ALICE, "/subagents stop last")
        await it.outlet.replied()

        last = it.outlet.card(run.id)
        assert last.steps == (CardStep("wait_here", StepState.FAILED, "1.0"),)
        assert last.tool == ""


async def test_on_discord_the_owner_watches_the_steps_and_stops_the_subagent(
    database_url: str, tmp_path: Path
) -> None:
    play = searching(call("file_list"), Reply(text="never", fault="hang"))
    async with (
        new_server() as server,
        on_discord(database_url, server, play, workspaces=in_folder(tmp_path)) as it,
    ):
        asked = await it.discord.say(server.alice, server.channel, "Barns?", mention=True)
        thread = await it.thread_of(asked)
        card = await it.card(thread, "└ ✓ `file_list`")
        assert card.buttons() == ["Stop", "Log", "Send"]
        refused = await it.discord.click(server.bob, card, "Stop")
        await refused.done()
        assert (await newest_run(it.bot, "barns")).status is RunStatus.RUNNING
        await (await it.discord.click(server.alice, card, "Stop")).done()
        await it.reads(thread, "In barn.py.")
        over = await it.card(thread, "code-search", "stopped")

        assert over is card
        assert over.text().split("\n")[1:] == ["└ ✓ `file_list`"]
        assert over.buttons() == ["Resume", "Log"]
        assert it.pings() == []


async def test_on_slack_the_owner_watches_the_steps_and_stops_the_subagent(
    way: Way, tmp_path: Path
) -> None:
    play = searching(call("file_list"), Reply(text="never", fault="hang"))
    async with (
        new_office() as office,
        on_slack(way, office, play, workspaces=in_folder(tmp_path)) as it,
    ):
        asked = await it.slack.say(office.alice, office.channel, "Barns?", mention=True)
        card = await it.card(asked, "└ ✓ `file_list`")
        assert card.thread_ts == asked.ts
        await (await it.slack.click(office.alice, card, "Stop")).done()
        await it.reads(asked, "In barn.py.")
        over = await it.card(asked, "code-search", "stopped")

        assert over is card
        assert "└ ✓ `file_list`" in over.readable(office.alice)


async def test_after_a_restart_the_card_goes_on_in_its_message(
    database_url: str, tmp_path: Path
) -> None:
    play = searching(call("file_list"), Reply(text="never", fault="hang"))
    files = in_folder(tmp_path)
    async with new_server() as server:
        async with on_discord(database_url, server, play, workspaces=files) as it:
            asked = await it.discord.say(server.alice, server.channel, "Barns?", mention=True)
            thread = await it.thread_of(asked)
            card = await it.card(thread, "└ ✓ `file_list`")
            await card_is_kept(it.bot, "barns")
        play.runs["where barns are counted"][:] = [call("glob", pattern="*"), Reply(text="There.")]
        async with on_discord(database_url, server, play, workspaces=files) as it:
            await it.reads(thread, "In barn.py.")
            over = await it.card(thread, "code-search", "completed")

            assert over is card
            assert [each for each in it.said(thread) if each.buttons()] == [card]
            assert "✓ `glob`" in card.text()
