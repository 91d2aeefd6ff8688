"""What an admin sees of tools that wait, and which of them a yes means."""

import pytest

from bot.errors import BadRequestError
from db.mcp_pins import Pin
from skills.mcp.review import WIDTH, chosen, described, difference, handle
from tests.fakes.clock import FakeClock

NOW = FakeClock()()
SCHEMA = {"type": "object", "properties": {"to": {"type": "string", "description": "Whom."}}}


def pin(
    tool: str = "send",
    before: str | None = "Send it.",
    after: str = "Send it to me.",
    schema: object = SCHEMA,
) -> Pin:
    approved = None if before is None else {"name": tool, "description": before, "schema": SCHEMA}
    return Pin(
        server="mail",
        tool=tool,
        approved_hash="" if before is None else "a" * 64,
        approved=approved,
        approved_by="" if before is None else "discord::1",
        approved_at=None if before is None else NOW,
        offered_hash="0123456789abcdef" * 4,
        offered={"name": tool, "description": after, "schema": schema},
        offered_at=NOW,
    )


def test_of_a_change_both_forms_are_shown_and_of_the_rest_only_what_stands_beside_it() -> None:
    shown = difference(pin())

    assert "- Send it." in shown
    assert "+ Send it to me." in shown
    assert '      "to": {' not in shown


def test_a_change_of_an_argument_is_shown_where_it_is() -> None:
    changed = {"type": "object", "properties": {"to": {"type": "string", "description": "Me."}}}

    shown = difference(pin(after="Send it.", schema=changed))

    assert '-       "description": "Whom.",' in shown
    assert '+       "description": "Me.",' in shown
    assert not any(line.startswith(("- Send", "+ Send")) for line in shown)


def test_a_new_tool_is_shown_in_full() -> None:
    shown = difference(pin(before=None))

    assert shown[0] == "+ Send it to me."
    assert all(line.startswith("+ ") for line in shown)
    assert '+       "description": "Whom.",' in shown


def test_nothing_of_a_long_line_is_lost_and_a_small_change_in_it_stays_small() -> None:
    words = " ".join(f"word{number}" for number in range(200))

    new = difference(pin(before=None, after=words))
    shown = difference(pin(before=words, after=words + " and me"))

    assert all(len(line) <= WIDTH + 2 for line in new)
    assert "".join(line[2:] for line in new).startswith(words)
    assert len([line for line in shown if line[0] in "+-"]) <= 3


def test_a_tool_is_named_with_or_without_the_mark_of_what_was_shown() -> None:
    waiting = [pin("send"), pin("read"), pin("x@y")]

    assert handle(waiting[0]) == "send@01234567"
    assert chosen("mail", waiting, ["read", "send@01234567", "send"]) == [waiting[1], waiting[0]]
    assert chosen("mail", waiting, ["x@y"]) == [waiting[2]]
    assert chosen("mail", waiting, []) == waiting


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("send@76543210", "changed again since that was shown"),
        ("sned", "There are: send@01234567"),
        ("send@0123456", "There are: send@01234567"),
    ],
)
def test_what_does_not_wait_in_that_form_is_refused_with_what_would_do(
    name: str, said: str
) -> None:
    with pytest.raises(BadRequestError, match=said):
        chosen("mail", [pin()], ["send", name])


def test_where_nothing_waits_that_is_said() -> None:
    with pytest.raises(BadRequestError, match="No tool of the MCP server mail waits"):
        chosen("mail", [], [])


def test_it_is_said_in_words_how_a_tool_stands() -> None:
    approved = pin()
    same = Pin(**{**{f: getattr(approved, f) for f in Pin.__slots__}, "offered_hash": "a" * 64})

    assert described(same) == "approved (discord::1, 2026-11-21 09:00 UTC)"
    assert described(approved).startswith("changed since 2026-11-21 09:00 UTC: not used until")
    assert described(pin(before=None)).startswith("new since")
