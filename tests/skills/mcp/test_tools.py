"""What MCP servers offer and answer, as the bot takes it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.values import Json
from skills.mcp.flow import FloodError, Flow, FlowLimits
from skills.mcp.settings import McpSettings
from skills.mcp.tools import MOST_TOOLS, name_for, offers, result_text

OBJECT: Json = {"type": "object"}


def one(**tool: object) -> str:
    """Return what is wrong with a tool; empty for nothing."""
    found, problems = offers("s", [{"name": "t", "inputSchema": OBJECT, **tool}])
    assert bool(found) != bool(problems)
    return problems[0] if problems else ""


@given(st.text(min_size=1, max_size=200))
def test_every_name_becomes_one_that_models_take(raw: str) -> None:
    name = name_for("server", raw)

    assert name.startswith("mcp__server__")
    assert len(name) <= 64
    assert name.isascii()
    assert name.replace("_", "").replace("-", "").isalnum() or not raw.strip("_-")


@given(st.lists(st.text(min_size=1, max_size=90), unique=True, max_size=20))
def test_two_tools_never_share_a_name(raws: list[str]) -> None:
    found, _ = offers("s", [{"name": raw, "inputSchema": OBJECT} for raw in raws])

    names = [offer.name for offer in found.values()]
    assert len(names) == len(set(names))


def test_a_tool_that_takes_the_made_up_name_of_another_brings_both_down() -> None:
    made_up = name_for("s", "a b").removeprefix("mcp__s__")

    found, problems = offers("s", [{"name": n, "inputSchema": OBJECT} for n in ("a b", made_up)])

    assert found == {}
    assert "both are left out" in problems[0]


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ({"name": ""}, "1 to 200"),
        ({"name": "x" * 201}, "1 to 200"),
        ({"name": "a\u202eb"}, "nobody can see"),
        ({"inputSchema": None}, "no schema"),
        ({"inputSchema": {"type": "array"}}, "no plain object"),
        ({"inputSchema": {"type": "object", "oneOf": []}}, "no plain object"),
        ({"inputSchema": {"type": "object", "properties": []}}, "broken"),
        ({"inputSchema": {"type": "object", "properties": {"ä": {}}}}, "no model takes"),
        ({"inputSchema": {"type": "object", "required": "all"}}, "broken"),
        (
            {"inputSchema": {"type": "object", "properties": {"a": {"$ref": "file:///x"}}}},
            "another document",
        ),
    ],
)
def test_a_tool_that_would_spoil_every_request_is_left_out(tool: Json, said: str) -> None:
    assert said in one(**tool)


def test_a_reference_within_the_schema_is_fine() -> None:
    schema = {**OBJECT, "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {}}}

    assert one(inputSchema=schema) == ""


def test_hidden_letters_do_not_reach_the_model() -> None:
    hidden = "a\u200b\U000e0041b"
    schema = {**OBJECT, "properties": {"x": {"type": "string", "description": hidden}}}

    (offer,) = offers("s", [{"name": "t", "description": hidden, "inputSchema": schema}])[
        0
    ].values()

    assert offer.description == "ab"
    assert offer.schema["properties"]["x"]["description"] == "ab"


def test_only_so_many_tools_are_taken() -> None:
    found, problems = offers("s", [{"name": f"t{n}", "inputSchema": OBJECT} for n in range(500)])

    assert len(found) == MOST_TOOLS
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"type": "text", "text": "<x>"}, "&lt;x&gt;"),
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, "[audio, audio/wav, 3 bytes"),
        (
            {"type": "resource", "resource": {"uri": "a://b", "text": "<p>", "mimeType": "t/x"}},
            "[resource a://b]\n&lt;p&gt;",
        ),
        ({"type": "resource", "resource": {"uri": "a://b", "blob": "AA=="}}, "1 bytes: not shown"),
        ({"type": "resource_link", "name": "n", "uri": "a://b"}, "[link to a resource n: a://b"),
        ({"type": "hologram"}, "not known"),
    ],
)
def test_content_is_shown_or_described(item: Json, said: str) -> None:
    text = result_text("s", {"content": [item]})

    assert said in text


def test_a_structure_is_shown_where_there_is_no_text() -> None:
    assert '{"a": 1}' in result_text("s", {"content": [], "structuredContent": {"a": 1}})
    assert "(nothing)" in result_text("s", {"content": []})
    assert '"a"' not in result_text(
        "s", {"content": [{"type": "text", "text": "x"}], "structuredContent": {"a": 1}}
    )


def test_a_flow_has_its_bounds_in_each_window() -> None:
    now = 0.0
    flow = Flow(FlowLimits(seconds=1, messages=3, requests=1, octets=10), lambda: now)
    for _ in range(3):
        flow.take_message(request=False)
    with pytest.raises(FloodError, match="too many messages"):
        flow.take_message(request=False)

    now = 1.0
    flow.take_octets(10)
    flow.take_message(request=True)
    with pytest.raises(FloodError, match="asks too much"):
        flow.take_message(request=True)
    with pytest.raises(FloodError, match="too many bytes"):
        flow.take_octets(1)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({}, "either `command` or `url`"),
        ({"command": ["x"], "url": "http://h/"}, "either `command` or `url`"),
        ({"url": "ftp://h/"}, "must be an address"),
        ({"url": "https://user:pw@h/"}, "a password belongs into"),
        ({"url": "https://h/", "environment": {"A": "b"}}, "mean nothing"),
        ({"command": ["x"], "headers": {"A": "b"}}, "mean nothing"),
        ({"command": ["x"], "runs": ["a"], "confirm": ["a"]}, "has no user to ask"),
    ],
)
def test_settings_that_cannot_be_are_explained(server: Json, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        McpSettings.model_validate({"servers": {"s": server}})


@pytest.mark.parametrize("name", ["a__b", "a_", "_a", "A", "a b", "", "x" * 31, "a-"])
def test_a_name_that_could_be_read_in_two_ways_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a server"):
        McpSettings.model_validate({"servers": {name: {"command": ["x"]}}})


def test_no_secret_of_the_settings_is_shown() -> None:
    settings = McpSettings.model_validate(
        {"servers": {"s": {"command": ["x"], "environment": {"KEY": "canary"}}}}
    )

    assert "canary" not in repr(settings)
    assert "canary" not in json.dumps(settings.model_dump(mode="json"))
