"""Weighted tokens of requests: what is cached counts by its price."""

from dataclasses import replace

import pytest

from bot.agent.budget import Spending
from bot.agent.messages import Answer, Message, Usage, UserMessage, estimate_tokens
from bot.models.base import ModelRequest, ToolDescription

TOOL = ToolDescription("look", "Look. " * 100, {"type": "object"})
TASK = UserMessage("Count the sheep. " * 50)


def spending() -> Spending:
    return Spending("You count.", "some-model", (TOOL,), lambda model: 0.1)


def ask(*messages: Message) -> ModelRequest:
    return ModelRequest(model="some-model", prompt="You count.", messages=messages, tools=(TOOL,))


def answer(usage: Usage) -> Answer:
    return Answer("Next.", usage=usage, model="some-model")


def test_reported_cached_tokens_are_discounted() -> None:
    usage = spending().weighed(ask(TASK), answer(Usage(100, 20, 1000, 50)))

    assert (usage.total, usage.weighted) == (1170, 270)


def test_without_a_report_the_part_equal_to_the_previous_prompt_counts_as_cached() -> None:
    it = spending()

    first = it.weighed(ask(TASK), answer(Usage(1000, 20)))
    second = it.weighed(ask(TASK, answer(Usage()), UserMessage("More")), answer(Usage(1200, 20)))

    assert first.weighted == 1020
    assert second.weighted == 1220 - 900


def test_another_model_that_answers_has_cached_nothing() -> None:
    it = spending()
    it.weighed(ask(TASK), answer(Usage(1000, 20)))

    other = it.weighed(ask(TASK), replace(answer(Usage(1000, 20)), model="another"))
    again = it.weighed(ask(TASK), replace(answer(Usage(1000, 20)), model="another"))

    assert (other.discount, again.discount) == (0, 900)


def test_only_the_equal_beginning_counts_when_the_history_was_cut() -> None:
    it = spending()
    it.weighed(ask(TASK, UserMessage("One " * 300)), answer(Usage(1000, 20)))

    usage = it.weighed(ask(TASK, UserMessage("Two " * 300)), answer(Usage(1000, 20)))

    assert 300 < usage.discount < 800


@pytest.mark.parametrize("tools", [(), (replace(TOOL, name="find"),)])
def test_nothing_is_equal_when_the_tools_differ(tools: tuple[ToolDescription, ...]) -> None:
    it = spending()
    it.weighed(ask(TASK), answer(Usage(1000, 20)))

    usage = it.weighed(replace(ask(TASK), tools=tools), answer(Usage(1000, 20)))

    assert usage.discount == 0


def test_the_expected_cost_of_the_next_request_is_weighted() -> None:
    it = spending()
    whole = it.expected([TASK])
    it.weighed(ask(TASK), answer(Usage(whole, 20)))

    again = it.expected([TASK, UserMessage("More")])

    assert again == pytest.approx(whole * 0.1, abs=15)


def test_the_expected_input_is_what_the_last_request_was_billed_and_what_was_added() -> None:
    it = spending()
    first, more = ask(TASK), (answer(Usage()), UserMessage("More"))
    whole = it.expected_input(first)
    it.weighed(first, answer(Usage(500, 20, 4_000, 500)))

    assert it.expected_input(ask(TASK, *more)) == 5_000 + estimate_tokens(more)
    # Nothing is known of a request that begins otherwise, or has other tools.
    assert it.expected_input(ask(UserMessage("Other. " * 100), *more)) < whole + 200
    assert it.expected_input(replace(ask(TASK), tools=())) < whole
