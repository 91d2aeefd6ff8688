"""The history holds the results of tools, as far as everyone who reads the place may read them."""

from dataclasses import replace
from typing import Any

from bot.agent.messages import Answer, ToolCall, ToolResult, ToolResults, UserMessage, to_json
from bot.conversations.turn_results import CHARACTERS, PERSONAL, calls_of, for_place
from bot.values import Json
from skills.base import Audience, Tool, ToolContext

FETCH = ToolCall("a", "web_fetch", {"url": "https://example.org"})
NOTES = ToolCall("b", "note_search", {"query": "secret"})
FETCHED = ToolResult("a", "A page.", foreign=True)
FOUND = ToolResult("b", "My secret.", private=True)


async def _run(_: ToolContext, __: Json) -> str:
    return ""


def place_tool(name: str, **options: Any) -> Tool:
    return Tool(name=name, description="", schema={}, run=_run, audience=Audience.PLACE, **options)


PLACE = {"web_fetch": place_tool("web_fetch")}


def step(seq: int, answer: Answer, received: ToolResults | UserMessage | None = None) -> Json:
    return {
        "received": to_json(received) if received else None,
        "answer": to_json(answer),
        "limit": None,
        "read": [],
    }


def rows(*bodies: Json) -> list[tuple[int, str, Json]]:
    return [(seq, "answer", body) for seq, body in enumerate(bodies)]


TURN = rows(
    step(0, Answer("Let me look.", (FETCH, NOTES))),
    step(1, Answer("Done."), ToolResults((FETCHED, FOUND), "You have used 80 %.")),
)


def test_calls_and_results_are_restored_without_words_and_notes() -> None:
    assert calls_of("t", TURN) == [
        Answer("", (replace(FETCH, id="t_0_0"), replace(NOTES, id="t_0_1"))),
        ToolResults((replace(FETCHED, call_id="t_0_0"), replace(FOUND, call_id="t_0_1"))),
    ]


def test_of_a_tool_for_one_user_neither_arguments_nor_result_are_shown() -> None:
    answer, results = for_place(calls_of("t", TURN), PLACE)

    fetch = replace(FETCH, id="t_0_0")
    assert answer == Answer("", (fetch, ToolCall("t_0_1", "note_search")))
    fetched = replace(FETCHED, call_id="t_0_0")
    assert results == ToolResults((fetched, ToolResult("t_0_1", PERSONAL)))
    assert "secret" not in str((answer, results))


def test_the_audience_may_depend_on_the_call() -> None:
    def audience_of(given: Json) -> Audience:
        return Audience.PERSONAL if given.get("link") else Audience.PLACE

    here, linked = ToolCall("a", "history", {}), ToolCall("b", "history", {"link": "secret"})
    received = ToolResults((ToolResult("a", "Said here."), ToolResult("b", "My secret.")))
    turn = rows(step(0, Answer("", (here, linked))), step(1, Answer("Done."), received))
    tools = {"history": place_tool("history", audience_of=audience_of)}

    answer, results = for_place(calls_of("t", turn), tools)

    assert answer == Answer("", (replace(here, id="t_0_0"), ToolCall("t_0_1", "history")))
    assert results == ToolResults(
        (ToolResult("t_0_0", "Said here."), ToolResult("t_0_1", PERSONAL))
    )


def test_a_long_result_is_cut() -> None:
    long = ToolResult("a", "x" * 50_000)
    turn = rows(step(0, Answer("", (FETCH,))), step(1, Answer("Done."), ToolResults((long,))))

    _, results = calls_of("t", turn)

    assert isinstance(results, ToolResults)
    assert len(results.results[0].text) < CHARACTERS + 200


def test_calls_without_results_are_left_out() -> None:
    interrupted = rows(step(0, Answer("", (FETCH,))))
    half = rows(step(0, Answer("", (FETCH, NOTES))), step(1, Answer("No."), ToolResults((FOUND,))))

    assert calls_of("t", interrupted) == calls_of("t", half) == []


def test_ids_that_a_provider_uses_again_are_unique_in_the_conversation() -> None:
    again = ToolResults((replace(FETCHED, text="Another page."),))
    first = step(0, Answer("", (FETCH,)))
    turn = rows(
        first,
        step(1, Answer("", (FETCH,)), ToolResults((FETCHED,))),
        step(2, Answer("Done."), again),
    )

    made = [
        call.id
        for turn_id in ("t1", "t2")
        for message in calls_of(turn_id, turn)
        if isinstance(message, Answer)
        for call in message.calls
    ]

    assert len(made) == len(set(made)) == 4


def test_a_turn_without_calls_adds_nothing() -> None:
    assert calls_of("t", rows(step(0, Answer("Hello.")))) == []
