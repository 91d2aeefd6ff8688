"""Schemas of tools in few words: what a model needs stays, and what is checked does not change."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, create_model

from bot.agent.brief import brief
from bot.values import Json
from skills.base import ToolContext, ToolError, tool
from tests.fakes.around import caller


class Part(BaseModel):
    """A docstring for whoever reads the code."""

    title: str = Field(description="Its title")
    kind: Literal["a", "b"] = "a"
    least: Annotated[int, Field(ge=0, lt=2**63)] = 0


class Whole(BaseModel):
    """Whatever pydantic can put into a schema."""

    title: str
    description: str
    parts: list[Part] = Field(description="All of them")
    one: Part | None = Field(None, description="Just one")
    note: str | None = None
    either: int | str | None = None
    entries: dict[str, str] | None = None
    on: bool = False
    few: Annotated[int, Field(ge=1, le=20)] = 5


PART: Json = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "Its title"},
        "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "least": {"type": "integer", "default": 0},
    },
    "required": ["title"],
}


def test_only_what_a_model_needs_is_left() -> None:
    found = brief(Whole.model_json_schema())

    assert found["properties"] == {
        "title": {"type": "string"},
        "description": {"type": "string"},
        "parts": {"type": "array", "items": PART, "description": "All of them"},
        "one": {**PART, "description": "Just one"},
        "note": {"type": "string"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
        "entries": {"type": "object", "additionalProperties": {"type": "string"}},
        "on": {"type": "boolean"},
        "few": {"type": "integer", "maximum": 20, "default": 5},
    }
    assert found["required"] == ["title", "description", "parts"]
    assert "$defs" not in found


class Tree(BaseModel):
    """Refers to itself."""

    below: "list[Tree]" = []


def test_a_schema_that_refers_to_itself_stays_whole() -> None:
    schema = Tree.model_json_schema()

    assert brief(schema) == schema


def test_no_arguments_are_an_empty_object() -> None:
    assert brief(create_model("Nothing").model_json_schema()) == {
        "type": "object",
        "properties": {},
    }


@tool()
async def look(
    context: ToolContext, place: str, most: Annotated[int | None, Field(ge=1)] = None
) -> str:
    """Look somewhere."""
    return f"{place} {most}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"place": "here", "other": 1}, "`other` is not an argument"),
        ({"place": "here", "most": 0}, "greater than or equal to 1"),
        ({}, "`place` is required"),
    ],
)
async def test_what_the_schema_no_longer_says_is_still_refused(arguments: Json, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        await look.run(caller(), arguments)


async def test_null_still_counts_as_left_out() -> None:
    assert await look.run(caller(), {"place": "here", "most": None}) == "here None"
