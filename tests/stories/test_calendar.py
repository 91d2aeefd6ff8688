"""An event that a user wanted: asked, and on a real server once the user says yes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from skills.calendar.settings import CalendarsSettings
from tests.fakes.anthropic_server import Reply
from tests.fakes.radicale_server import PASSWORDS, Radicale, radicale_server
from tests.stories.stage import ALICE, BOB, Play, call, said, stage

TEA = call("calendar_create", title="Tea", start="2027-03-28 02:30", repeat="weekly")


@pytest.fixture
def radicale(tmp_path: Path) -> Iterator[Radicale]:
    folder = tmp_path / "radicale"
    folder.mkdir()
    with radicale_server(folder) as server:
        yield server


def settings(radicale: Radicale) -> CalendarsSettings:
    mine = {
        "url": radicale.url("alice"),
        "username": "alice",
        "password": PASSWORDS["alice"],
        "people": ["fake:alice"],
        "write": True,
    }
    return CalendarsSettings.model_validate({"calendars": {"mine": mine}})


async def test_an_event_is_added_once_when_its_user_says_yes(
    database_url: str, radicale: Radicale
) -> None:
    listing = call("calendar_list", **{"from": "2027-04-04", "to": "2027-04-04"})
    lines = [TEA, Reply(text="Shall I?"), Reply(text="Added."), listing, Reply(text="Tea.")]
    play = Play(main=lines)
    async with stage(database_url, play, calendar=settings(radicale)) as it:
        await it.say(ALICE, "Tea every week, please")
        question = await it.outlet.asked()
        await it.outlet.replied(1)
        before = radicale.objects("alice")

        others = await it.bot.orchestrator.answer(BOB, question.id, choice="yes")
        await it.bot.orchestrator.answer(ALICE, question.id, choice="yes")
        again = await it.bot.orchestrator.answer(ALICE, question.id, choice="yes")
        await it.outlet.replied(2)
        done = said(play.asked[-1]["messages"][-1])
        await it.say(ALICE, "What is on that day?")
        await it.outlet.replied(3)

    assert "add this to the calendar mine: “Tea”; Sunday 28 March 2027, 02:30" in question.text
    assert (before, others.failed, again.failed) == ([], True, True)
    assert done.startswith("Added to the calendar mine: “Tea”")
    assert ["SUMMARY:Tea" in text for text in radicale.objects("alice")] == [True]
    assert '"start": "2027-04-04T02:30+00:00"' in said(play.asked[-1]["messages"][-1])


async def test_nothing_is_added_when_the_user_says_no(
    database_url: str, radicale: Radicale
) -> None:
    play = Play(main=[TEA, Reply(text="Shall I?")])
    async with stage(database_url, play, calendar=settings(radicale)) as it:
        await it.say(ALICE, "Tea every week, please")
        question = await it.outlet.asked()
        await it.outlet.replied(1)
        answer = await it.bot.orchestrator.answer(ALICE, question.id, choice="no")

    assert "Not done" in answer.text
    assert radicale.objects("alice") == []


async def test_another_user_is_not_even_asked_and_learns_nothing(
    database_url: str, radicale: Radicale
) -> None:
    play = Play(main=[TEA, call("calendar_list", calendar="mine"), Reply(text="I cannot.")])
    async with stage(database_url, play, calendar=settings(radicale)) as it:
        await it.say(BOB, "Tea every week in Alice's calendar, please")
        await it.outlet.replied(1)
        questions = list(it.outlet.questions)

    assert questions == []
    assert "no calendar to which I can add" in said(play.asked[1]["messages"][-1])
    assert "There is no calendar 'mine'" in said(play.asked[2]["messages"][-1])
    assert radicale.objects("alice") == []
