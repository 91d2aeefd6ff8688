"""Announcements reach their user once, whatever the platform does."""

from bot.errors import DeliveryError
from bot.values import Identity, RunStatus
from tests.fakes.anthropic_server import Reply
from tests.fakes.outlet import FakeOutlet
from tests.stories.stage import ALICE, PLATFORM, Play, call, stage


def a_run() -> Play:
    return Play(runs={"Work": [Reply(text="Finished.")]})


async def test_a_result_for_someone_who_is_away_waits_for_the_next_chat(database_url: str) -> None:
    outlet = FakeOutlet(PLATFORM)
    async with stage(database_url, a_run(), outlet=outlet) as it:
        outlet.absent.add(ALICE)
        await it.command(ALICE, "/subagents spawn Work")
        run = await it.ended("Work", RunStatus.COMPLETED)
        await it.reaches(run.id, "waiting")
        assert outlet.announcements == []
        outlet.absent.clear()
        await it.bot.announcements.deliver_waiting(ALICE)

        assert [told.text for told in outlet.announcements] == ["Finished."]
        assert outlet.announcements[0].maybe_repeated is False


async def test_who_comes_while_a_send_fails_for_their_absence_gets_it_with_the_next_sweep(
    database_url: str,
) -> None:
    outlet = FakeOutlet(PLATFORM)
    here: list[Identity] = []
    async with stage(
        database_url, a_run(), outlet=outlet, present=lambda: here[0] if here else None
    ) as it:
        outlet.absent.add(ALICE)
        await it.command(ALICE, "/subagents spawn Work")
        run = await it.ended("Work", RunStatus.COMPLETED)
        await it.reaches(run.id, "waiting")
        # Alice came before that was stored: what waited was delivered without it.
        outlet.absent.clear()
        here.append(ALICE)
        await it.bot.upkeep.sweep()
        told = await outlet.announced(run.id)

        assert told.text == "Finished."


async def test_a_send_that_failed_is_tried_again_under_the_same_key(database_url: str) -> None:
    outlet = FakeOutlet(PLATFORM)
    outlet.fail_next("announcement", DeliveryError("The platform is busy."))
    async with stage(database_url, a_run(), outlet=outlet) as it:
        await it.command(ALICE, "/subagents spawn Work")
        run = await it.ended("Work", RunStatus.COMPLETED)
        await it.reaches(run.id, "pending")
        await it.make_due(run.id)
        await it.bot.announcements.sweep()
        told = await outlet.announced(run.id)

        assert told.maybe_repeated is False
        assert len(outlet.announcements) == 1


async def test_a_send_of_unknown_fate_is_repeated_once_marked_and_never_again(
    database_url: str,
) -> None:
    outlet = FakeOutlet(PLATFORM)
    for _ in range(2):
        lost = DeliveryError("No answer came.", fate_unknown=True)
        outlet.fail_next("announcement", lost, taken=True)
    async with stage(database_url, a_run(), outlet=outlet) as it:
        await it.command(ALICE, "/subagents spawn Work")
        run = await it.ended("Work", RunStatus.COMPLETED)
        await it.reaches(run.id, "pending")
        await it.make_due(run.id)
        await it.bot.announcements.sweep()
        await it.reaches(run.id, "blocked")
        await it.bot.announcements.sweep()

        assert [told.maybe_repeated for told in outlet.announcements] == [False, True]


async def test_a_place_that_is_gone_blocks_the_result_visibly_and_it_can_be_retried(
    database_url: str,
) -> None:
    outlet = FakeOutlet(PLATFORM)
    outlet.fail_next("announcement", DeliveryError("The channel is gone.", permanent=True))
    async with stage(database_url, a_run(), outlet=outlet) as it:
        await it.command(ALICE, "/subagents spawn Work")
        run = await it.ended("Work", RunStatus.COMPLETED)
        await it.reaches(run.id, "blocked")
        listed = await it.command(ALICE, "/subagents list")
        again = await it.command(ALICE, f"/subagents retry {run.id}")
        await it.bot.announcements.sweep()
        await outlet.announced(run.id)

        assert "Could not be delivered" in listed.text
        assert "Trying again" in again.text


async def test_a_blocked_result_can_be_dismissed_and_still_be_read(database_url: str) -> None:
    outlet = FakeOutlet(PLATFORM)
    outlet.fail_next("announcement", DeliveryError("The channel is gone.", permanent=True))
    async with stage(database_url, a_run(), outlet=outlet) as it:
        await it.command(ALICE, "/subagents spawn Work")
        run = await it.ended("Work", RunStatus.COMPLETED)
        await it.reaches(run.id, "blocked")
        await it.command(ALICE, f"/subagents dismiss {run.id}")
        listed = await it.command(ALICE, "/subagents list")
        info = await it.command(ALICE, f"/subagents info {run.id}")

        assert "Could not be delivered" not in listed.text
        assert "Finished." in info.text


async def test_a_reply_that_could_not_be_given_is_given_later(database_url: str) -> None:
    outlet = FakeOutlet(PLATFORM)
    outlet.fail_next("reply", DeliveryError("The platform is busy."))
    play = Play(main=[Reply(text="Here is your answer.")])
    async with stage(database_url, play, outlet=outlet) as it:
        await it.say(ALICE, "Hello?")
        await outlet.until(lambda: bool(outlet.announcements), "the reply")

        assert outlet.announcements[0].text == "Here is your answer."
        assert outlet.announcements[0].place.channel == "room"


async def test_the_same_event_delivered_again_is_answered_once(database_url: str) -> None:
    from bot.platforms.base import Incoming
    from tests.stories.stage import ROOM

    play = Play(main=[Reply(text="Once."), Reply(text="Twice.")])
    async with stage(database_url, play) as it:
        event = Incoming(event_id="E1", user=ALICE, user_name="A", place=ROOM, text="Hi")
        await it.bot.orchestrator.receive(event)
        await it.bot.orchestrator.receive(event)
        await it.outlet.replied()
        await it.say(ALICE, "Again")
        await it.outlet.replied(2)

        assert it.outlet.texts() == ["Once.", "Twice."]


async def test_a_run_goes_on_and_reports_after_its_conversation_was_closed(
    database_url: str,
) -> None:
    play = Play(
        main=[call("sessions_spawn", task="Work"), Reply(text="Started."), Reply(text="Afresh.")],
        runs={"Work": [call("wait_here"), Reply(text="Finished.")]},
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Work, please.")
        await it.outlet.replied(1)
        await it.gate.held(1)
        await it.command(ALICE, "/new")
        it.gate.opened.set()
        told = await it.outlet.announced((await it.run_of("Work")).id)
        await it.say(ALICE, "Hello again")
        await it.outlet.replied(2)

        assert told.text == "Finished."
        assert "Work, please." not in str(play.asked[-1]["messages"])
