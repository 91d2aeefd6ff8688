"""The tools of one answer: at once, in order, counted, and never the end of the work."""

import asyncio

import pytest

from bot.agent.base_agent import SAME_CALLS
from bot.agent.messages import Answer, StopReason, ToolCall, ToolResults, from_json
from bot.errors import FencedError
from bot.values import Json, RunStatus
from skills.base import Effects, ToolContext
from tests.bot.agent.things import Office, a_tool, answers_in, results_shown, texts_of
from tests.fakes.around import FakeBudget, MemoryJournal, surroundings
from tests.fakes.scripted_model import ScriptedModel, asks_for, call, says


async def test_the_calls_of_one_answer_run_at_the_same_time(office: Office) -> None:
    together = asyncio.Barrier(5)

    async def meet(_: ToolContext, arguments: Json) -> str:
        await together.wait()
        return f"met {arguments['n']}"

    calls = [call("meet", f"id{n}", n=n) for n in range(5)]
    model = ScriptedModel(asks_for(*calls), says("Met."))
    result = await office.work(model, a_tool("meet", meet))

    assert result.status is RunStatus.COMPLETED
    assert texts_of(results_shown(model.last).results) == [f"met {n}" for n in range(5)]


async def test_results_stand_in_the_order_of_the_calls(office: Office) -> None:
    ended = [asyncio.Event() for _ in range(4)]

    async def last_first(_: ToolContext, arguments: Json) -> str:
        n = int(arguments["n"])
        if n < 3:
            await ended[n + 1].wait()
        ended[n].set()
        return f"result {n}"

    calls = [call("look", f"id{n}", n=n) for n in range(4)]
    model = ScriptedModel(asks_for(*calls), says("Done."))
    await office.work(model, a_tool("look", last_first))

    results = results_shown(model.last).results
    assert [(result.call_id, result.text) for result in results] == [
        (f"id{n}", f"result {n}") for n in range(4)
    ]


async def test_each_call_has_an_id_that_is_its_own_in_the_work(office: Office) -> None:
    seen: list[tuple[str, str]] = []

    async def note(context: ToolContext, _: Json) -> str:
        seen.append((context.work_id, context.call_id))
        return "noted"

    model = ScriptedModel(
        asks_for(call("note", "a"), call("note", "a", n=1)),
        asks_for(call("note", "a", n=2)),
        says("Done."),
    )
    await office.work(model, a_tool("note", note))

    assert seen == [("run-1", "1.0"), ("run-1", "1.1"), ("run-1", "2.0")]


async def test_what_goes_wrong_with_a_call_is_told_to_the_model(office: Office) -> None:
    async def broken(_: ToolContext, __: Json) -> str:
        raise RuntimeError("a secret cause")

    model = ScriptedModel(
        asks_for(
            call("look"),
            call("fly"),
            call("boss"),
            ToolCall("m", "look", malformed="{"),
            call("broken"),
        ),
        says("I made do."),
    )

    result = await office.work(
        model, a_tool("look"), a_tool("boss", main_agent_only=True), a_tool("broken", broken)
    )

    assert (result.status, result.tool_calls) == (RunStatus.COMPLETED, 5)
    shown = results_shown(model.last).results
    assert [item.failed for item in shown] == [False, True, True, True, True]
    assert "You have no tool 'fly'" in shown[1].text
    assert "You have no tool 'boss'" in shown[2].text
    assert "no JSON object" in shown[3].text
    assert "a secret cause" not in shown[4].text


@pytest.mark.parametrize(
    "answers",
    [
        [["x"], ["x"], ["x"]],
        [["x", "x"], ["x"]],
        [["x", "x", "x"]],
        [["y", "x"], ["x", "x"]],
    ],
)
async def test_the_same_call_three_times_in_a_row_ends_the_work(
    office: Office, answers: list[list[str]]
) -> None:
    made: list[str] = []

    async def look(_: ToolContext, arguments: Json) -> str:
        made.append(arguments["at"])
        return "nothing"

    script = [
        asks_for(*(call("look", f"{n}.{i}", at=at) for i, at in enumerate(ats)), text=f"Try {n}.")
        for n, ats in enumerate(answers)
    ]
    result = await office.work(ScriptedModel(*script), a_tool("look", look))

    assert result.status is RunStatus.FAILED
    assert "the same call to look 3 times in a row" in result.error
    assert made.count("x") < SAME_CALLS
    assert result.text == "\n\n".join(f"Try {n}." for n in range(len(answers)))


@pytest.mark.parametrize(
    "answers",
    [
        [["x"], ["x"], ["y"], ["x"], ["x"]],
        [["x", "y", "x", "y", "x"]],
        [["x", "x", "y"], ["x", "x"]],
    ],
)
async def test_the_same_call_now_and_then_is_all_right(
    office: Office, answers: list[list[str]]
) -> None:
    script = [
        asks_for(*(call("look", f"{n}.{i}", at=at) for i, at in enumerate(ats)))
        for n, ats in enumerate(answers)
    ]

    result = await office.work(ScriptedModel(*script, says("Done.")), a_tool("look"))

    assert result.status is RunStatus.COMPLETED


async def test_three_calls_in_a_row_that_are_no_json_end_the_work(office: Office) -> None:
    script = [asks_for(ToolCall(f"c{n}", "look", malformed="{" * n)) for n in (1, 2, 3)]

    result = await office.work(ScriptedModel(*script), a_tool("look"))

    assert result.status is RunStatus.FAILED
    assert "3 times in a row" in result.error
    assert "no JSON" in result.error


async def test_fifty_calls_at_once_are_cut_to_what_is_left(office: Office) -> None:
    made: list[int] = []

    async def look(_: ToolContext, arguments: Json) -> str:
        made.append(arguments["n"])
        return "seen"

    calls = [call("look", f"id{n}", n=n) for n in range(50)]
    model = ScriptedModel(
        asks_for(call("look", n=-1)), asks_for(*calls), says("I saw some of them.")
    )
    result = await office.work(model, a_tool("look", look), max_tool_calls=25)

    assert made == [-1, *range(24)]
    assert (result.status, result.tool_calls) == (RunStatus.MAX_TOOL_CALLS, 25)
    shown = results_shown(model.last).results
    assert [item.call_id for item in shown] == [f"id{n}" for n in range(50)]
    assert [item.failed for item in shown] == [False] * 24 + [True] * 26
    assert "Not called" in shown[24].text


async def test_repeated_ids_are_made_unique_before_anyone_refers_to_them(office: Office) -> None:
    journal = MemoryJournal()
    model = ScriptedModel(
        asks_for(call("look", "a", n=0), call("look", "a", n=1), call("look", "a_1", n=2)),
        says("Done."),
    )

    await office.work(model, a_tool("look"), around=surroundings(journal=journal))

    answer, results = model.last.messages[-2:]
    assert isinstance(answer, Answer)
    assert isinstance(results, ToolResults)
    ids = [item.id for item in answer.calls]
    assert len(set(ids)) == 3
    assert [result.call_id for result in results.results] == ids
    assert answers_in(journal.shelf.entries)[0].answer.calls == answer.calls


async def test_blocks_that_still_have_the_old_ids_are_not_sent_back(office: Office) -> None:
    native: list[Json] = [{"type": "tool_use", "id": "a"}, {"type": "tool_use", "id": "a"}]
    first = Answer(
        "", (call("look", "a", n=0), call("look", "a", n=1)), StopReason.TOOL_CALLS, native=native
    )
    model = ScriptedModel(first, says("Done."))

    await office.work(model, a_tool("look"))

    answer = model.last.messages[-2]
    assert isinstance(answer, Answer)
    assert answer.native is None


async def test_blocks_of_the_provider_go_back_unchanged(office: Office) -> None:
    native: list[Json] = [{"type": "thinking", "signature": "s"}, {"type": "tool_use", "id": "a"}]
    first = Answer("", (call("look", "a"),), StopReason.TOOL_CALLS, native=native)
    model = ScriptedModel(first, says("Done."))

    await office.work(model, a_tool("look"))

    answer = model.last.messages[-2]
    assert isinstance(answer, Answer)
    assert answer.native == native


async def test_a_long_result_is_cut_for_the_model_and_whole_in_the_transcript(
    office: Office,
) -> None:
    long = "".join(f"sheep {n}\n" for n in range(1000))

    async def read(_: ToolContext, __: Json) -> str:
        return long

    model = ScriptedModel(asks_for(call("read")), says("Many."))
    result = await office.work(model, a_tool("read", read), tool_result_characters=1000)

    shown = results_shown(model.last).results[0].text
    assert len(shown) < 1200
    assert shown.startswith("sheep 0\n")
    assert shown.endswith("sheep 999\n")
    assert "characters are left out here" in shown
    kept = from_json(result.transcript[1])
    assert isinstance(kept, ToolResults)
    assert kept.results[0].text == long


async def test_what_acts_on_the_world_is_stored_at_once_and_what_reads_is_not(
    office: Office,
) -> None:
    journal = MemoryJournal()
    around = surroundings(journal=journal, budget=FakeBudget())
    model = ScriptedModel(
        asks_for(call("send"), call("look"), call("save")),
        says("Done."),
    )

    await office.work(
        model,
        a_tool("send", effects=Effects.ONCE),
        a_tool("look", effects=Effects.NONE),
        a_tool("save", effects=Effects.REPEATABLE),
        around=around,
    )

    kinds = [type(entry).__name__ for entry in journal.shelf.entries]
    assert kinds == ["AnswerEntry", "ResultEntry", "AnswerEntry"]
    reserved = [counters.reserved for counters in journal.shelf.counters]
    assert reserved[1] == reserved[0] > 0, "the next call still may be paid for"


async def test_who_has_lost_the_work_stops_in_the_middle_of_its_tools(office: Office) -> None:
    journal = MemoryJournal()

    async def send(_: ToolContext, __: Json) -> str:
        journal.shelf.attempt += 1
        return "sent"

    model = ScriptedModel(asks_for(call("send"), call("look")))

    with pytest.raises(FencedError):
        await office.work(
            model,
            a_tool("send", send, effects=Effects.ONCE),
            a_tool("look"),
            around=surroundings(journal=journal),
        )


async def test_who_has_lost_the_work_stops_at_its_next_step(office: Office) -> None:
    journal = MemoryJournal()

    def respond(_: object) -> Answer:
        journal.shelf.attempt += 1
        return says("Too late.")

    with pytest.raises(FencedError):
        await office.work(ScriptedModel(respond=respond), around=surroundings(journal=journal))

    assert journal.shelf.rows == {}


class EngineStop(BaseException):
    """Something of the engine's own that is no `Exception`."""


async def test_what_is_no_exception_passes_through_the_tools(office: Office) -> None:
    async def stop(_: ToolContext, __: Json) -> str:
        raise EngineStop

    model = ScriptedModel(asks_for(call("stop"), call("look")))

    with pytest.raises(EngineStop):
        await office.work(model, a_tool("stop", stop), a_tool("look"))
