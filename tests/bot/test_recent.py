"""A cache of limited size forgets what is oldest."""

from bot.recent import Recent


def test_the_oldest_entry_is_evicted_and_what_is_set_again_counts_as_new() -> None:
    known: Recent[str, int] = Recent(2)
    known["one"] = 1
    known["two"] = 2
    known["one"] = 3
    known["three"] = 4

    assert list(known.items()) == [("one", 3), ("three", 4)]
