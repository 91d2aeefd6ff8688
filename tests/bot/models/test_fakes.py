"""The fakes refuse what the real providers refuse; a history they take is a sound one."""

import pytest

from bot.values import Json
from tests.fakes import anthropic_server, openai_server
from tests.fakes.model_server import Reply, per_conversation

CALL: Json = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "a", "content": "Found."}
TEXT: Json = {"type": "text", "text": "Hi"}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def claude(*messages: Json, **fields: object) -> Json:
    tools = [{"name": "look", "input_schema": {}}]
    return {"max_tokens": 10, "messages": list(messages), "tools": tools, **fields}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (claude(user(TEXT)), ""),
        (claude(user(TEXT), assistant(CALL), user(RESULT, TEXT)), ""),
        (claude(user(TEXT), user(TEXT)), ""),
        (claude(), "first message"),
        (claude(assistant(TEXT), user(TEXT)), "first message"),
        (claude(user(TEXT), assistant(TEXT)), "prefill"),
        (claude(user(TEXT), assistant(CALL), user(TEXT)), "tool_result"),
        (claude(user(TEXT, RESULT)), "first in the content"),
        (claude(user(RESULT)), "tool_use ids"),
        (claude(user(TEXT), assistant(CALL, CALL), user(RESULT, RESULT)), "unique"),
        (claude(user(TEXT), assistant(CALL), user(RESULT), tools=[]), "must define tools"),
        (claude(user({"type": "text", "text": " "})), "non-whitespace"),
        (claude(user(TEXT), temperature=0.5), "temperature"),
        (claude(user(TEXT), tool_choice={"type": "any"}), "tool_choice"),
        (claude(user(TEXT), thinking={"type": "disabled"}), "thinking"),
        (claude(user(TEXT), max_tokens=0), "max_tokens"),
    ],
)
def test_the_messages_api_is_strict(body: Json, words: str) -> None:
    problem = anthropic_server.problem_with(body)

    assert words in problem
    assert bool(problem) == bool(words)


ASKED: Json = {"role": "user", "content": "Hi"}
CALLED: Json = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}
ANSWERED: Json = {"role": "tool", "tool_call_id": "a", "content": "Found."}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([ASKED, CALLED, ANSWERED], ""),
        ([], "too short"),
        ([ASKED, ANSWERED], "must follow"),
        ([ASKED, CALLED], "did not have response"),
        ([ASKED, CALLED, ASKED], "did not have response"),
        ([{"role": "assistant", "content": None}], "content"),
    ],
)
def test_chat_completions_is_strict(messages: list[Json], words: str) -> None:
    problem = openai_server.problem_with({"messages": messages})

    assert words in problem
    assert bool(problem) == bool(words)


def test_each_conversation_is_answered_in_its_own_order() -> None:
    script = per_conversation(
        {"tea": [Reply(text="Tea 1"), Reply(text="Tea 2")], "": [Reply(text="Other")]}
    )

    texts = [script({"messages": [said]}).text for said in ("tea", "milk", "tea", "tea")]

    assert texts == ["Tea 1", "Other", "Tea 2", "Tea 2"]
