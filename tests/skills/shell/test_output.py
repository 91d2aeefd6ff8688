"""However much a command prints, its beginning and its end are kept."""

from hypothesis import given
from hypothesis import strategies as st

from skills.shell.output import CommandOutput, OutputBuffer


def kept(limit: int, *pieces: bytes) -> CommandOutput:
    kept = OutputBuffer(limit)
    for piece in pieces:
        kept.add(piece)
    return kept.output


def test_what_fits_is_kept_whole() -> None:
    assert kept(10, b"hello", b"", b"world") == CommandOutput("helloworld")


def test_of_more_the_middle_is_left_out_and_counted() -> None:
    assert kept(10, b"hello", b"-----", b"world") == CommandOutput("hello", "world", 5)


def test_what_is_no_text_is_marked() -> None:
    assert kept(100, b"caf\xc3\xa9 \xff\xfe").head == "café \ufffd\ufffd"


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(2, 60))
def test_beginning_end_and_number_of_missing_bytes_are_always_right(
    pieces: list[bytes], limit: int
) -> None:
    pieces = [bytes(byte % 26 + 97 for byte in piece) for piece in pieces]
    whole = b"".join(pieces).decode()

    output = kept(limit, *pieces)

    half = limit // 2
    if len(whole) <= 2 * half:
        assert output == CommandOutput(whole)
    else:
        assert output == CommandOutput(whole[:half], whole[-half:], len(whole) - 2 * half)


def test_little_is_held_of_an_endless_output() -> None:
    endless = OutputBuffer(1000)
    for _ in range(10_000):
        endless.add(b"x" * 100)

    assert endless.total == 1_000_000
    assert sum(len(piece) for piece in endless._tail) <= 600
