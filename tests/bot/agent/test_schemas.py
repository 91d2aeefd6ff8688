"""The input of an agent that is a tool: a flat schema, and a task of one line for each field."""

import pytest

from bot.agent.schemas import check_schema, task_of
from bot.errors import BadRequestError
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
