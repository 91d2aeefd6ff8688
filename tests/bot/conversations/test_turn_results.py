"""The history holds the results of tools, as far as everyone who reads the place may read them."""

from bot.agent.messages import Answer, ToolCall, ToolResult, ToolResults, UserMessage, to_json
from bot.conversations.turn_results import CHARACTERS, PERSONAL, calls_of
from bot.values import Json

FETCH = ToolCall("a", "web_fetch", {"url": "https://example.org"})
NOTES = ToolCall("b", "note_search", {"query": "secret"})
FETCHED = ToolResult("a", "A page.", foreign=True)
FOUND = ToolResult("b", "My secret.", private=True)
PLACE = {"web_fetch"}


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
    assert calls_of(TURN, shown=None) == [
        Answer("", (FETCH, NOTES)),
        ToolResults((FETCHED, FOUND)),
    ]


def test_of_a_tool_for_one_user_neither_arguments_nor_result_are_shown() -> None:
    answer, results = calls_of(TURN, shown=PLACE)

    assert answer == Answer("", (FETCH, ToolCall("b", "note_search")))
    assert results == ToolResults((FETCHED, ToolResult("b", PERSONAL)))
    assert "secret" not in str((answer, results))


def test_a_long_result_is_cut() -> None:
    long = ToolResult("a", "x" * 50_000)
    turn = rows(step(0, Answer("", (FETCH,))), step(1, Answer("Done."), ToolResults((long,))))

    _, results = calls_of(turn, shown=None)

    assert isinstance(results, ToolResults)
    assert len(results.results[0].text) < CHARACTERS + 200


def test_calls_without_results_are_left_out() -> None:
    interrupted = rows(step(0, Answer("", (FETCH,))))
    half = rows(step(0, Answer("", (FETCH, NOTES))), step(1, Answer("No."), ToolResults((FOUND,))))

    assert calls_of(interrupted, shown=None) == calls_of(half, shown=None) == []


def test_a_turn_without_calls_adds_nothing() -> None:
    assert calls_of(rows(step(0, Answer("Hello."))), shown=None) == []
