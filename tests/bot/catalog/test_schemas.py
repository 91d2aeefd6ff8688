"""The input of an agent that is a tool: a flat schema, and a task of one line for each field."""

import pytest

from bot.catalog.schemas import check_arguments, check_schema, task_of
from bot.errors import BadRequestError, ToolError
from bot.values import Json

REVIEW: Json = {
    "type": "object",
    "properties": {
        "target": {"type": "string"},
        "focus": {"type": "string", "enum": ["bugs", "all"], "default": "all"},
        "lines": {"type": "integer"},
        "deep": {"type": "boolean"},
        "names": {"type": "array"},
    },
    "required": ["target"],
}


def test_input_becomes_a_line_for_each_field_in_the_order_of_the_schema() -> None:
    given: Json = {"names": ["a", "ö"], "deep": True, "target": "bot/app.py", "lines": 3}

    assert task_of(check_schema(REVIEW), given) == (
        'target: bot/app.py\nfocus: all\nlines: 3\ndeep: true\nnames: ["a", "ö"]'
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "`target` is required."),
        ({"target": ""}, "`target` is required."),
        ({"target": "a", "more": 1}, "`more` is not an argument."),
        ({"target": 1}, "`target` must be of the type string."),
        ({"target": "a", "lines": True}, "`lines` must be of the type integer."),
        ({"target": "a", "lines": "3"}, "`lines` must be of the type integer."),
        ({"target": "a", "focus": "fun"}, "`focus` must be one of bugs, all."),
    ],
)
def test_input_that_does_not_fit_is_refused_in_a_sentence(given: Json, said: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        task_of(check_schema(REVIEW), given)

    assert str(raised.value) == said


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("text", "must be a JSON Schema of an object"),
        ({"type": "array"}, "must be a JSON Schema of an object"),
        ({"type": "object", "properties": {}}, "must have `properties`"),
        ({"properties": {"a b": {"type": "string"}}}, "is no simple name"),
        ({"properties": {"a": {"type": "object"}}}, "its `type` is one of"),
        ({"properties": {"a": {"type": "string"}}, "required": ["b"]}, "names in `required`"),
        ({"properties": {"a": {"type": "string", "default": {1}}}}, "must be plain JSON"),
    ],
)
def test_a_schema_that_is_of_no_use_says_why(schema: object, said: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        check_schema(schema)

    assert said in str(raised.value)


def test_nothing_beside_the_fields_is_taken() -> None:
    assert check_schema(REVIEW)["additionalProperties"] is False


SEND: Json = {
    "type": "object",
    "properties": {"to": {"type": ["string", "null"]}, "n": {"type": "integer"}, "x": {}},
    "required": ["to"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "`to` is required"),
        ({"to": "a", "of": 1}, "`of` is not an argument"),
        ({"to": 1}, "`to` must be of the type string or null"),
        ({"to": "a", "n": True}, "`n` must be of the type integer"),
        ({"to": "a", "n": 1.5}, "`n` must be of the type integer"),
    ],
)
def test_arguments_that_a_tool_would_refuse_are_named(given: Json, problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        check_arguments("send", SEND, given)


@pytest.mark.parametrize("given", [{"to": None}, {"to": "a", "n": 2.0, "x": [1]}])
def test_arguments_that_fit_are_accepted(given: Json) -> None:
    check_arguments("send", SEND, given)
    check_arguments("send", {"type": "object"}, given)
