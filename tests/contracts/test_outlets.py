"""What every outlet promises, on the fake and on every platform."""

import re
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.errors import DeliveryError, NotPresentError
from bot.platforms.base import (
    Announcement,
    CardStep,
    Choice,
    Confirmation,
    FileMessage,
    OutgoingFile,
    RunCard,
    Settlement,
    Weight,
)
from bot.platforms.messaging.outlet import MessagingOutlet
from bot.values import Place, RunStatus, StepState
from tests.contracts.stages import STAGES, Stage, TerminalStage

HOSTILE = (
    "before \x1b[2J\x1b]0;title\x07 \x9b31m \x00 [red]markup[/red] [bold "
    "@everyone <!channel> <@1> after"
)


@pytest.fixture(params=list(STAGES))
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with STAGES[request.param]() as opened:
        yield opened


def announcement(stage: Stage, **changes: object) -> Announcement:
    values: dict[str, object] = {
        "key": str(uuid.uuid4()),
        "place": stage.place,
        "owner": stage.owner,
        "title": "news completed",
        "text": "There is some.",
        "footer": "12,345 tokens",
    }
    return Announcement(**(values | changes))  # type: ignore[arg-type]


def card(stage: Stage, status: RunStatus, run_id: str, label: str = "news") -> RunCard:
    return RunCard(
        run_id=run_id,
        owner=stage.owner,
        place=stage.place,
        label=label,
        agent="general",
        status=status,
    )


def question(stage: Stage, **changes: object) -> Confirmation:
    values: dict[str, object] = {
        "id": str(uuid.uuid4()),
        "owner": stage.owner,
        "place": stage.place,
        "text": "Shall I delete the list?",
        "expires_in_seconds": 600,
    }
    return Confirmation(**(values | changes))  # type: ignore[arg-type]


def long_text() -> tuple[str, list[str]]:
    """Return more than 10,000 characters with code in fences, and its words in order."""
    words = [f"word{number:04}" for number in range(1200)]
    parts = []
    for start in range(0, len(words), 60):
        prose, code = words[start : start + 30], words[start + 30 : start + 60]
        parts += [" ".join(prose), "```python\n" + "\n".join(code) + "\n```"]
    return "\n\n".join(parts), words


async def test_the_final_text_of_a_reply_is_shown_whole(stage: Stage) -> None:
    reply = stage.outlet.open_reply(stage.place, stage.owner)
    reply.update("The answer")
    reply.update("The answer is forty-two, I th")

    delivered = await reply.finish("The answer is forty-two, I am sure.")

    assert "The answer is forty-two, I am sure." in stage.seen()
    assert len(delivered.message_ids) == 1


async def test_a_long_text_loses_nothing(stage: Stage) -> None:
    text, words = long_text()
    assert len(text) > 10_000
    reply = stage.outlet.open_reply(stage.place, stage.owner)
    reply.update(text[:5000])

    await reply.finish(text)

    assert re.findall(r"word\d{4}", stage.seen()) == words


async def test_a_reply_that_is_gone_on_with_ends_whole(stage: Stage) -> None:
    first = stage.outlet.open_reply(stage.place, stage.owner)
    first.update("The answer is")
    await first.abandon()

    again = stage.outlet.open_reply(stage.place, stage.owner, "some message")
    await again.finish("The answer is forty-two.")

    assert "The answer is forty-two." in stage.seen()


async def test_an_announcement_shows_title_text_and_footer(stage: Stage) -> None:
    await stage.outlet.announce(announcement(stage))

    seen = stage.seen()
    assert "news completed" in seen
    assert "There is some." in seen
    assert "12,345 tokens" in seen
    assert "repetition" not in seen


async def test_an_announcement_that_may_be_a_repetition_says_so(stage: Stage) -> None:
    await stage.outlet.announce(announcement(stage, maybe_repeated=True))

    assert "repetition" in stage.seen()


async def test_files_that_may_be_a_repetition_say_so_where_files_are_taken(stage: Stage) -> None:
    async def send(*, maybe_repeated: bool) -> None:
        await stage.outlet.send_files(
            FileMessage(
                place=stage.place,
                owner=stage.owner,
                files=[OutgoingFile("plan.md", b"Feed the hens")],
                key=str(maybe_repeated),
                maybe_repeated=maybe_repeated,
            )
        )

    if not stage.outlet.takes_files:
        with pytest.raises(DeliveryError):
            await send(maybe_repeated=False)
        return
    await send(maybe_repeated=False)
    assert "repetition" not in stage.seen()
    await send(maybe_repeated=True)
    assert "repetition" in stage.seen()


async def test_a_reply_ends_below_a_card_that_was_posted_meanwhile(stage: Stage) -> None:
    if not isinstance(stage.outlet, MessagingOutlet):
        return  # replies and cards have an order of their own there
    reply = stage.outlet.open_reply(stage.place, stage.owner)
    reply.update("The search begins, and")
    await stage.shows("The search begins")
    stage.outlet.show_card(card(stage, RunStatus.RUNNING, str(uuid.uuid4())))
    await stage.shows("running")

    await reply.finish("The search has begun.")

    seen = stage.seen()
    assert seen.index("running") < seen.index("The search has begun.")
    assert "begins" not in seen


async def test_the_newest_state_of_a_card_wins_and_the_final_one_stays(stage: Stage) -> None:
    run_id = str(uuid.uuid4())
    stage.outlet.show_card(card(stage, RunStatus.QUEUED, run_id))
    stage.outlet.show_card(card(stage, RunStatus.RUNNING, run_id))
    await stage.shows("running")
    assert "queued" not in stage.seen()

    stage.outlet.show_card(card(stage, RunStatus.COMPLETED, run_id))
    await stage.shows("completed")
    await stage.outlet.announce(announcement(stage, title="something else"))

    assert "running" not in stage.seen()
    assert "completed" in stage.seen()


async def test_the_tool_calls_of_a_run_are_seen_below_it_and_stay(stage: Stage) -> None:
    run_id = str(uuid.uuid4())
    steps = (CardStep("glob", StepState.FAILED), CardStep("look_around", StepState.DONE))
    going = replace(card(stage, RunStatus.RUNNING, run_id), awaited=True)
    over = replace(going, status=RunStatus.COMPLETED, steps=steps, tool_calls=6)
    stage.outlet.show_card(going)
    await stage.shows("running")

    stage.outlet.show_card(over)
    await stage.shows("completed")

    lines = [line.strip().replace("`", "") for line in stage.seen().splitlines()]
    assert [line for line in lines if line[:1] in {"├", "└"}] == [
        "├ … 4 earlier",
        "├ ✗ glob",
        "└ ✓ look_around",
    ]


async def test_hostile_text_is_harmless_wherever_it_stands(stage: Stage) -> None:
    outlet = stage.outlet
    run_id = str(uuid.uuid4())
    reply = outlet.open_reply(stage.place, stage.owner)
    reply.update(HOSTILE)
    outlet.show_card(card(stage, RunStatus.RUNNING, run_id, label=HOSTILE))
    await reply.finish(HOSTILE)
    await outlet.announce(announcement(stage, title=HOSTILE, text=HOSTILE, footer=HOSTILE))
    outlet.show_card(card(stage, RunStatus.FAILED, run_id, label=HOSTILE))
    await outlet.tell(stage.place, stage.owner, HOSTILE)
    await outlet.post(stage.place, stage.owner, HOSTILE)
    await stage.shows("failed")

    assert stage.dangers() == []
    assert stage.seen().count("[red]markup[/red]") >= 4


async def test_a_question_is_shown_to_its_owner(stage: Stage) -> None:
    await stage.outlet.ask(question(stage))

    assert "Shall I delete the list?" in stage.seen()


async def test_whether_a_run_may_use_a_tool_is_one_of_three_choices(stage: Stage) -> None:
    allow = (
        Choice("yes", "Allow once", Weight.GOOD),
        Choice("all", "Allow for this run"),
        Choice("no", "Deny", Weight.BAD),
    )

    await stage.outlet.ask(question(stage, choices=allow))

    assert "Shall I delete the list?" in stage.seen()
    assert stage.choices() == ["Allow once", "Allow for this run", "Deny"]


@pytest.mark.parametrize("count", [0, 2, 5])
async def test_what_a_run_asks_is_shown_with_its_options(stage: Stage, count: int) -> None:
    options = [Choice(f"{number}", f"Option {number}") for number in range(1, count + 1)]
    choices = (*options, Choice("skip", "Skip"))

    await stage.outlet.ask(question(stage, choices=choices, open_ended=True))

    assert "Shall I delete the list?" in stage.seen()
    assert stage.choices() == [*(f"Option {each.key}" for each in options), "Skip"]


@pytest.mark.parametrize("answered", [True, False])
async def test_a_question_that_waits_no_more_shows_why_and_offers_nothing(
    stage: Stage, answered: bool
) -> None:
    asked = question(stage)
    message_id = await stage.outlet.ask(asked)
    by = stage.owner if answered else None

    await stage.outlet.show_settlement(
        replace(asked, message_id=message_id), Settlement("Plum @here", by)
    )

    if not isinstance(stage, TerminalStage):  # paper cannot be edited
        assert stage.choices() == []
    if not (answered and isinstance(stage, TerminalStage)):  # its owner has the reply
        assert "Plum" in stage.seen()
    assert stage.dangers() == []


async def test_a_question_that_stands_there_already_is_not_asked_again(stage: Stage) -> None:
    asked = question(stage, choices=(Choice("yes", "Allow once"), Choice("no", "Deny")))
    message_id = await stage.outlet.ask(asked)

    again = await stage.outlet.ask(replace(asked, message_id=message_id))

    assert again == message_id
    if message_id:
        assert stage.choices() == ["Allow once", "Deny"]


async def test_what_a_model_wrote_on_choices_is_harmless(stage: Stage) -> None:
    choices = Choice("1", HOSTILE), Choice("2", "")

    await stage.outlet.ask(question(stage, choices=choices, open_ended=True))

    first, second = stage.choices()
    assert first.startswith("before")
    assert not set(first) & set("\x00\x07\x1b\x9b\n")
    assert second in {"2", ""}
    assert stage.dangers() == []


async def test_a_short_thing_is_told(stage: Stage) -> None:
    await stage.outlet.tell(stage.place, stage.owner, "Your run was stopped.")

    await stage.shows("Your run was stopped.")


async def test_a_text_is_posted_in_its_place(stage: Stage) -> None:
    await stage.outlet.post(stage.place, stage.owner, "Three of five pages are read.")

    await stage.shows("Three of five pages are read.")


async def test_nothing_is_delivered_to_someone_who_is_not_there(stage: Stage) -> None:
    reply = stage.outlet.open_reply(stage.place, stage.owner)
    if not await stage.leave():
        return

    with pytest.raises(NotPresentError):
        await reply.finish("A secret answer.")
    with pytest.raises(NotPresentError):
        await stage.outlet.announce(announcement(stage, text="A secret result."))
    with pytest.raises(NotPresentError):
        await stage.outlet.post(stage.place, stage.owner, "A secret sentence.")
    with pytest.raises(DeliveryError):
        await stage.outlet.ask(question(stage))
    await stage.outlet.tell(stage.place, stage.owner, "A secret word.")

    assert "secret" not in stage.seen()
    assert "Shall I" not in stage.seen()


async def test_acknowledging_and_telling_never_raise(stage: Stage) -> None:
    nowhere = Place(stage.place.platform, channel="nowhere at all")
    await stage.leave()

    await stage.outlet.acknowledge(nowhere)
    await stage.outlet.acknowledge(stage.place)
    await stage.outlet.tell(nowhere, stage.owner, "Hello?")
