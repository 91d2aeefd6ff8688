"""Images and PDFs in results: shown once, within the room of a request, also after a crash."""

from bot.agent.context import MEDIA_BYTES, NO_ROOM, NOT_ACCEPTED, fit, without_media
from bot.agent.journal import StoredJournal
from bot.agent.messages import (
    PAGE_TOKENS,
    SHOWN_BEFORE,
    Answer,
    Media,
    Message,
    ToolResult,
    ToolResults,
    UserMessage,
    estimate_tokens,
    from_json,
    holds_images,
    to_json,
)
from bot.agent.protocols import AnswerEntry, Counters, Entry, ResultEntry
from bot.errors import ImagesRefusedError, ToolError
from bot.tasks import Tasks
from bot.values import Identity, Json, RunStatus
from db import run_claims
from db.database import Database
from db.steps import StepWriter
from skills.base import ToolContext
from tests.bot.agent.things import Office, a_tool
from tests.fakes.clock import FakeClock
from tests.fakes.rows import meet, store_run
from tests.fakes.scripted_model import ScriptedModel, asks_for, call, says

CAT = Media("image/png", b"cat", "cat.png")
PLAN = Media("application/pdf", b"%PDF-", "plan.pdf", 3)
SHOWN = ToolResults((ToolResult("a", "Look.", media=(CAT, PLAN)),))


async def show(context: ToolContext, _: Json) -> str:
    context.show(CAT)
    context.show(PLAN)
    return "Look."


async def test_the_model_is_shown_what_a_tool_shows(office: Office) -> None:
    model = ScriptedModel(asks_for(call("show")), says("A cat."))

    result = await office.work(model, a_tool("show", show))

    assert result.text == "A cat."
    (received,) = [each for each in model.last.messages if isinstance(each, ToolResults)]
    assert received.results[0].media == (CAT, PLAN)


async def test_a_call_that_fails_shows_nothing(office: Office) -> None:
    async def break_down(context: ToolContext, _: Json) -> str:
        context.show(CAT)
        raise ToolError("It broke.")

    model = ScriptedModel(asks_for(call("show")), says("No cat."))

    await office.work(model, a_tool("show", break_down))

    assert not holds_images(model.last.messages)


async def test_a_model_that_refuses_media_reads_their_names_and_is_not_shown_any_again(
    office: Office,
) -> None:
    model = ScriptedModel(
        asks_for(call("show")),
        ImagesRefusedError("No images."),
        asks_for(call("show")),
        says("A cat?"),
    )

    result = await office.work(model, a_tool("show", show))

    assert (result.status, result.text) == (RunStatus.COMPLETED, "A cat?")
    assert [holds_images(each.messages) for each in model.requests] == [False, True, False, False]
    assert f"[cat.png: {NOT_ACCEPTED}]" in str(model.last.messages)


def test_media_are_left_out_where_a_message_is_stored() -> None:
    document = to_json(SHOWN)

    assert "cat.png" in str(document)
    assert CAT.base64 not in str(document)
    assert from_json(document, {CAT.digest: CAT.data, PLAN.digest: PLAN.data}) == SHOWN
    found = from_json(document, {CAT.digest: CAT.data})
    assert isinstance(found, ToolResults)
    assert found.results[0].media == (CAT,)
    assert found.results[0].text == f"Look.\n[plan.pdf: {SHOWN_BEFORE}]"


def test_media_count_as_tokens() -> None:
    without = estimate_tokens([ToolResults((ToolResult("a", "Look."),))])

    assert estimate_tokens([SHOWN]) - without >= 3 * PAGE_TOKENS


def test_the_newest_media_have_precedence_in_the_room_of_a_request() -> None:
    large = Media("application/pdf", b"x" * (MEDIA_BYTES - 10), "large.pdf", 1)
    small = Media("image/png", b"y" * 20, "small.png")
    messages: list[Message] = [
        UserMessage("Look."),
        ToolResults((ToolResult("a", "First.", media=(small,)),)),
        Answer("Hm."),
        ToolResults((ToolResult("b", "Second.", media=(large,)),)),
    ]

    shown = fit(messages, tokens=100_000, result_characters=1_000)

    assert shown[1] == ToolResults((ToolResult("a", f"First.\n[small.png: {NO_ROOM}]"),))
    assert shown[3] == messages[3]
    assert fit(messages[:3], tokens=100_000, result_characters=1_000)[1] == messages[1]


def test_a_pdf_of_more_pages_than_the_context_has_room_for_is_named() -> None:
    long = Media("application/pdf", b"x", "long.pdf", 100)

    (shown,) = fit(
        [ToolResults((ToolResult("a", "Look.", media=(long,)),))],
        tokens=100_000,
        result_characters=1_000,
    )

    assert shown == ToolResults((ToolResult("a", f"Look.\n[long.pdf: {NO_ROOM}]"),))
    assert without_media([SHOWN]) == (
        ToolResults(
            (ToolResult("a", f"Look.\n[cat.png: {NOT_ACCEPTED}]\n[plan.pdf: {NOT_ACCEPTED}]"),)
        ),
    )


async def test_work_that_resumes_sees_the_media_of_its_steps(
    database: Database, tasks: Tasks, clock: FakeClock, alice: Identity
) -> None:
    await meet(database, alice, clock())
    run_id = await store_run(database, alice, clock())

    async def attempt() -> StoredJournal:
        async with database.transaction() as tx:
            run = await run_claims.claim(tx, run_id, worker_id="w", reserve=9, now=clock())
        assert run is not None
        writer = StepWriter(database, tasks)
        return StoredJournal(
            database=database,
            writer=writer,
            table="runs",
            work_id=run_id,
            attempt=run.attempt,
            now=clock,
        )

    first = await attempt()
    entries: list[Entry] = [
        AnswerEntry(None, asks_for(call("show"))),
        ResultEntry(1, 0, SHOWN.results[0]),
        AnswerEntry(SHOWN, says("A cat.")),
    ]
    for entry in entries:
        await first.write(entry, Counters())

    assert await (await attempt()).load() == entries
