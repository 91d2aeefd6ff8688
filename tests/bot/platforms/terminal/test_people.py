import pytest

from bot.errors import BadRequestError
from bot.platforms.terminal.people import identity_of, place_of
from bot.values import Identity, Place


def test_a_name_is_an_identity_and_a_place_of_its_own() -> None:
    alice = identity_of("alice")

    assert alice == Identity("terminal", "", "alice")
    assert place_of(alice) == Place("terminal", channel="alice")


@pytest.mark.parametrize("name", ["", "a b", "al:ice", "x" * 65, "../x", "é", "bob\n", "\x1b[2J"])
def test_what_is_no_name_is_refused_with_what_would_be_one(name: str) -> None:
    with pytest.raises(BadRequestError, match="such as `alice`"):
        identity_of(name)
