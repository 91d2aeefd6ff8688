"""The state of the loop between steps, and its result."""

import pytest

from bot.agent.messages import Answer, StopReason, ToolResult, ToolResults, Usage, UserMessage
from bot.agent.progress import Halt, Progress
from bot.agent.protocols import AnswerEntry, ResultEntry
from bot.values import RunStatus
from tests.fakes.scripted_model import asks_for, call, says


def after(*answers: Answer) -> Progress:
    progress = Progress()
    progress.begin([UserMessage("Count.")], [AnswerEntry(None, answer) for answer in answers])
    return progress


def test_work_that_has_not_begun_has_no_text() -> None:
    progress = after()

    assert (progress.text(), progress.result().said, progress.partial_text()) == ("", "", "")
    assert progress.halt is None
    assert progress.resumed_at == -1


def test_work_that_was_not_finished_is_a_failure_with_what_was_said() -> None:
    result = after(asks_for(call("look"), text=" I look. ")).result()

    assert (result.status, result.text) == (RunStatus.FAILED, "I look.")
    assert result.error == "The work was not finished."


def test_the_text_is_the_last_answer_and_what_was_said_is_all_of_them() -> None:
    progress = after(asks_for(call("look"), text="I look.\n"), says("Twelve. "))

    assert progress.text() == "Twelve."
    assert progress.result().said == "I look.\n\nTwelve."


def test_without_a_last_answer_in_words_the_text_is_all_that_was_said() -> None:
    progress = after(asks_for(call("look"), text="I look."), says("", stop=StopReason.REFUSAL))

    assert progress.text() == "I look."


@pytest.mark.parametrize(
    ("answer", "halt"),
    [
        (says("Twelve."), Halt(RunStatus.COMPLETED)),
        (asks_for(call("look")), None),
        (says("", stop=StopReason.PAUSE), None),
        (says("", stop=StopReason.MAX_TOKENS), None),
        (says("Half", stop=StopReason.MAX_TOKENS), Halt(RunStatus.COMPLETED)),
        (says(""), Halt(RunStatus.FAILED, "The model sent an empty answer.")),
    ],
)
def test_an_answer_ends_the_work_or_goes_on(answer: Answer, halt: Halt | None) -> None:
    assert after(answer).halt == halt


def test_at_a_limit_nothing_but_the_limit_is_the_status() -> None:
    progress = Progress()
    for stop in StopReason:
        entry = AnswerEntry(None, says("Twelve.", stop=stop), RunStatus.TIMEOUT)
        halt = progress.halt_after(entry)

        assert halt is not None
        assert halt.status is RunStatus.TIMEOUT
        assert halt.refused is (stop is StopReason.REFUSAL)


def test_an_empty_answer_is_not_kept_in_the_history() -> None:
    progress = after(says("", stop=StopReason.MAX_TOKENS))

    assert progress.messages == [UserMessage("Count.")]
    assert progress.steps == 1


def test_stored_results_are_found_by_step_and_place() -> None:
    result = ToolResult("b", "Sent.")
    progress = Progress()
    progress.begin(
        [], [AnswerEntry(None, asks_for(call("a"), call("b"))), ResultEntry(1, 1, result)]
    )

    assert progress.results == {(1, 1): result}
    assert [made.name for made in progress.open_calls()] == ["a", "b"]
    assert progress.resumed_at == 1


def test_calls_of_the_newest_answer_count_only_when_they_are_made() -> None:
    results = ToolResults((ToolResult("a", "done"),))
    progress = Progress()
    progress.begin(
        [],
        [AnswerEntry(None, asks_for(call("a"))), AnswerEntry(results, asks_for(call("b")))],
    )

    assert progress.tool_calls == 1


def test_what_was_charged_beyond_the_steps_is_kept_apart() -> None:
    progress = after(says("Twelve.", usage=Usage(10, 5)))

    progress.charge_earlier(Usage(100))
    assert (progress.usage.total, progress.extra) == (100, Usage(input=85))
    progress.charge_earlier(Usage(3))
    assert progress.usage.total == 15
