"""Addresses in texts, and the sites that they belong to."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.net.free_addresses import (
    MOST_KNOWN,
    MOST_LOOKED_AT,
    addresses_in,
    canonical,
    merged,
    same_site,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Read https://a.example/b?c=d#e, please.", ["https://a.example/b?c=d"]),
        ("(see https://a.example/x_(y))", ["https://a.example/x_(y)"]),
        (
            "[there](https://a.example/b) and <https://c.example>",
            ["https://a.example/b", "https://c.example/"],
        ),
        ("HTTPS://A.Example/B", ["https://a.example/B"]),
        ("https://a.example/b) https://a.example/b", ["https://a.example/b"] * 2),
        ("ftp://a.example javascript:alert(1) https://user@a.example", []),
        ("nothing here", []),
    ],
)
def test_addresses_are_found_in_a_text(text: str, found: list[str]) -> None:
    assert list(addresses_in(text)) == found


def test_a_user_may_leave_the_scheme_out() -> None:
    text = "look at docs.example.com/start and mail me@example.org"

    assert list(addresses_in(text, bare=True)) == ["https://docs.example.com/start"]
    assert list(addresses_in(text)) == []


@given(st.text())
def test_every_address_found_is_canonical(text: str) -> None:
    for address in addresses_in(text, bare=True):
        assert canonical(address) == address


@given(st.lists(st.integers(0, 200)), st.lists(st.integers(0, 200)))
def test_the_first_addresses_stay_and_there_are_never_too_many(
    known: list[int], more: list[int]
) -> None:
    before = merged([], map(str, known))
    after = merged(before, map(str, more))

    assert after[: len(before)] == before
    assert len(after) == len(set(after)) <= MOST_KNOWN


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://example.com/", "https://www.example.com/a", True),
        ("https://a.example.co.uk/", "https://b.example.co.uk/", True),
        ("https://example.co.uk/", "https://other.co.uk/", False),
        ("https://one.github.io/", "https://two.github.io/", False),
        ("https://example.com/", "https://example.com.evil.org/", False),
        ("https://93.184.216.34/", "https://93.184.216.34/x", True),
        ("https://93.184.216.34/", "https://93.184.216.35/", False),
    ],
)
def test_a_site_is_a_registrable_domain(one: str, other: str, *, same: bool) -> None:
    assert same_site(one, other) is same


@pytest.mark.parametrize(("different", "most"), [(True, MOST_KNOWN + 1), (False, MOST_LOOKED_AT)])
def test_of_links_without_end_only_a_bounded_part_is_looked_at(
    *, different: bool, most: int
) -> None:
    looked_at = 0

    def links() -> Iterator[str]:
        nonlocal looked_at
        for number in range(100_000):
            looked_at += 1
            yield f"https://a.example/{number if different else 0}"

    found = merged(["https://b.example/"], links())

    assert len(found) == (MOST_KNOWN if different else 2)
    assert looked_at <= most
