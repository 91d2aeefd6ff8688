"""The operations of a document that are taken over, and those that are left out, with reasons."""

import pytest

from bot.values import Json
from skills.rest.documents import described_by
from skills.rest.omissions import MOST_NAMED, lines_of, logged, problem_of
from skills.rest.openapi import NOT_NAMED, OTHER, TOO_MANY, TWICE, read
from skills.rest.operations import MOST_OPERATIONS
from skills.rest.settings import RestServiceSettings


def shop(count: int) -> Json:
    """Return a document of that many operations, the last of which has no id."""
    paths: Json = {f"/p{n}": {"get": {"operationId": f"op{n}"}} for n in range(count - 1)}
    return {"openapi": "3.1.0", "paths": {**paths, f"/p{count - 1}": {"get": {}}}}


def twice() -> Json:
    same = {"operationId": "pay"}
    return {"openapi": "3.1.0", "paths": {"/a": {"post": same}, "/b": {"post": same}}}


def test_operations_beyond_the_limit_can_be_named() -> None:
    found = read("shop", shop(1_000), ["op998", "GET /p999", "op5", "nothing"])

    assert [each.id for each in found.operations] == ["op5", "op998", "get_p999"]
    (rest,) = found.omitted
    assert (rest.reason, rest.count, rest.chosen) == (NOT_NAMED, 997, True)
    assert found.unknown == ("nothing",)
    assert problem_of(found) == "it has no nothing, which the configuration names"


def test_each_operation_beyond_the_limit_is_named_with_the_reason() -> None:
    found = read("shop", shop(300))

    assert len(found.operations) == MOST_OPERATIONS
    (rest,) = found.omitted
    assert (rest.reason, rest.count, rest.chosen) == (TOO_MANY, 300 - MOST_OPERATIONS, False)
    assert rest.names[0] == "op128 (GET /p128)"
    assert rest.names[-1] == "GET /p299"
    assert problem_of(found).endswith(f"and {rest.count - MOST_NAMED} more")
    log = "\n".join(logged(found))
    assert all(name in log for name in rest.names)
    assert all(len(line) < 2_000 for line in log.splitlines())


def test_a_choice_of_more_than_the_limit_is_cut_and_reported() -> None:
    found = read("shop", shop(300), [f"op{n}" for n in range(200)])

    assert len(found.operations) == MOST_OPERATIONS
    assert {each.reason: each.count for each in found.omitted} == {TOO_MANY: 72, NOT_NAMED: 100}


def test_the_second_operation_of_an_id_is_left_out_unless_its_address_is_named() -> None:
    both = read("shop", twice(), ["POST /a", "POST /b"])
    first = read("shop", twice())

    assert [each.name for each in both.operations] == ["rest__shop__pay", "rest__shop__post_b"]
    assert [each.address for each in first.operations] == ["POST /a"]
    assert (first.omitted[0].reason, first.omitted[0].names) == (TWICE, ("pay (POST /b)",))


def test_runs_and_confirm_must_name_operations_that_are_taken_over() -> None:
    settings = RestServiceSettings(
        document="shop.json",
        base="https://shop.example",
        operations=("op1", "GET /p2"),
        runs=("op2", "op3"),
        confirm=("GET /p1",),
    )
    content = b'{"openapi": "3.1.0", "paths": {%s}}' % b", ".join(
        b'"/p%d": {"get": {"operationId": "op%d"}}' % (n, n) for n in range(5)
    )

    _, document = described_by("shop", settings, content)

    assert document.unknown == ("op3",)


def test_the_list_names_every_operation_and_can_be_searched() -> None:
    document = read("shop", shop(200), None)

    everything = list(lines_of(document, ""))

    assert len(everything) == 200
    assert everything[0] == "op0 (GET /p0): rest__shop__op0"
    assert everything[-1] == f"GET /p199: left out, {TOO_MANY}"
    assert list(lines_of(document, "P150")) == [f"op150 (GET /p150): left out, {TOO_MANY}"]


@pytest.mark.parametrize("count", [3, 5_000])
def test_reasons_and_names_of_a_hostile_document_are_bounded(count: int) -> None:
    paths = {
        f"/p{n}": {"get": {"parameters": [{"name": f"c{n}", "in": "cookie", "required": True}]}}
        for n in range(count)
    }

    found = read("shop", {"openapi": "3.1.0", "paths": paths})

    assert sum(each.count for each in found.omitted) == count
    assert len(found.omitted) <= 101
    assert sum(len(each.names) for each in found.omitted) <= 2_000
    assert (found.omitted[-1].reason == OTHER) == (count > 100)
    assert found.omitted[0].reason == "its parameter c0 cannot be sent"
