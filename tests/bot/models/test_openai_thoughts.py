"""Reasoning of servers that speak Chat Completions."""

import pytest

from bot.agent.messages import UserMessage
from bot.models.base import ModelRequest
from bot.models.openai_codec import answer_from

REQUEST = ModelRequest(model="m", prompt="", messages=(UserMessage("Hi"),))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_an_answer_of_reasoning_alone_is_known_as_such(field: str) -> None:
    message = {"role": "assistant", "content": "", field: "Let me see."}

    answer = answer_from({"choices": [{"message": message, "finish_reason": "stop"}]}, REQUEST)

    assert (answer.text, answer.thought) == ("", True)
