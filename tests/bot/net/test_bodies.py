"""Bodies: bounded, unpacked no further than is wanted, and text."""

import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.net.base import WebError
from bot.net.bodies import (
    MEGABYTE,
    MOST_UNPACKED,
    BodyLimits,
    check_type,
    decoded,
    read_body,
)


async def chunks(data: bytes, size: int = 65_536) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def read(
    data: bytes, encoding: str = "", limits: BodyLimits | None = None, size: int = 65_536
) -> tuple[bytes, bool]:
    return await read_body(chunks(data, size), encoding, limits or BodyLimits())


def bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "GZIP ": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    " deflate": bare_deflate,
}


@given(st.sampled_from(sorted(PACKERS)), st.binary(max_size=5000), st.integers(1, 700))
async def test_a_body_is_what_was_packed_however_it_comes(
    encoding: str, data: bytes, size: int
) -> None:
    assert await read(PACKERS[encoding](data), encoding, size=size) == (data, False)


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "gzip,br", "x"])
async def test_a_body_packed_in_another_way_is_refused(encoding: str) -> None:
    with pytest.raises(WebError, match="packed in a way that cannot be read"):
        await read(b"abc", encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_what_is_not_packed_as_it_says_is_refused(encoding: str) -> None:
    with pytest.raises(WebError, match="packed in a way that cannot be read"):
        await read(b"<html>plain after all</html>", encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", " deflate"])
async def test_a_packed_body_that_breaks_off_is_told(encoding: str) -> None:
    with pytest.raises(WebError, match="broke off before its end"):
        await read(PACKERS[encoding](b"some text, and more of it")[:-5], encoding)


async def test_a_body_is_cut_where_no_more_is_read() -> None:
    limits = BodyLimits(wire=100, unpacked=1000)

    assert await read(b"a" * 100, limits=limits) == (b"a" * 100, False)
    assert await read(b"a" * 101, limits=limits) == (b"a" * 100, True)
    assert await read(b"a" * 500, limits=limits, size=7) == (b"a" * 100, True)


async def test_a_packed_body_is_cut_where_no_more_is_unpacked() -> None:
    body, cut = await read(
        gzip.compress(bytes(range(256)) * 100), "gzip", BodyLimits(unpacked=1000)
    )

    assert (len(body), cut) == (1000, True)


async def test_a_body_without_end_is_left() -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"a" * MEGABYTE

    body, cut = await read_body(endless(), "", BodyLimits(wire=2 * MEGABYTE))

    assert (len(body), cut, taken) == (2 * MEGABYTE, True, 3)


def bomb(megabytes: int, wbits: int) -> Iterator[bytes]:
    packer = zlib.compressobj(9, wbits=wbits)
    for _ in range(megabytes):
        yield packer.compress(bytes(MEGABYTE))
    yield packer.flush()


@pytest.mark.parametrize(("encoding", "wbits"), [("gzip", 31), ("deflate", 15), ("deflate", -15)])
async def test_a_bomb_is_refused_before_it_fills_the_memory(encoding: str, wbits: int) -> None:
    packed = b"".join(bomb(100, wbits))
    tracemalloc.start()
    try:
        with pytest.raises(WebError, match="far more than it says"):
            await read(packed, encoding)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 4 * MOST_UNPACKED


async def test_bombs_after_the_end_of_a_body_are_left_alone() -> None:
    packed = gzip.compress(b"a page") + b"".join(bomb(20, 31))

    assert (await read(packed, "gzip", size=100))[0] == b"a page"


async def test_a_small_page_of_one_letter_is_no_bomb() -> None:
    body, cut = await read(gzip.compress(b"a" * 100_000), "gzip")

    assert (len(body), cut) == (100_000, False)


@pytest.mark.parametrize(
    "kind",
    [
        *("text/html", "text/plain", "text/markdown", "text/csv", "text/x-python", ""),
        *("application/json", "application/ld+json", "application/problem+json"),
        *("application/xml", "application/rss+xml", "application/xhtml+xml", "image/svg+xml"),
        *("application/yaml", "application/javascript", "application/toml"),
    ],
)
def test_texts_are_read(kind: str) -> None:
    check_type(kind)


@pytest.mark.parametrize(
    "kind",
    [
        *("image/png", "application/pdf", "application/octet-stream", "application/zip"),
        *("audio/mpeg", "video/mp4", "font/woff2", "multipart/form-data", "application/x-tar"),
        *("application/vnd.ms-excel", "text/", "text", "text/html\n", "application/jsonx", "*/*"),
    ],
)
def test_what_is_no_text_is_refused_with_advice(kind: str) -> None:
    with pytest.raises(WebError, match="no text: only web pages"):
        check_type(kind)


@pytest.mark.parametrize(
    ("content", "charset", "text"),
    [
        ("žluť".encode(), "", "žluť"),
        ("žluť".encode(), "utf-8", "žluť"),
        ("žluť".encode("cp1250"), "windows-1250", "žluť"),
        ("žluť".encode("utf-16"), "", "žluť"),
        ("\ufeffžluť".encode(), "iso-8859-2", "žluť"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
        (b"caf\xe9 \x93x\x94", "iso-8859-1", "café “x”"),
        (b"caf\xe9", "", "café"),
        (b"caf\xe9", "us-ascii", "café"),
        (b"caf\xe9", "utf-8", "caf�"),
        ("žluť".encode(), "no-such-thing", "žluť"),
        ("žluť".encode()[:-1], "", "žlu"),
        *(
            (b"plain", name, "plain")
            for name in ("hex", "zip", "idna", "punycode", "rot13", "utf-7")
        ),
        *((b"a\\u0041", name, "a\\u0041") for name in ("unicode_escape", "raw_unicode_escape")),
        (b"plain", "\0", "plain"),
        (b"plain", "ü", "plain"),
        (b"plain", "../../etc/passwd", "plain"),
    ],
)
def test_a_text_is_read_in_the_charset_it_is_in(content: bytes, charset: str, text: str) -> None:
    assert decoded(content, charset) == text


def test_a_page_may_name_its_charset_itself() -> None:
    page = '<html><head><meta charset="windows-1250"></head><body>žluť</body>'.encode("cp1250")

    assert "žluť" in decoded(page, "", html=True)
    assert "žluť" not in decoded(page, "")


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\0\0\0", b"%PDF-1.7\0"])
def test_what_calls_itself_text_and_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(WebError, match="no text, whatever the server calls it"):
        decoded(content, "")


@given(st.binary(max_size=300), st.text(max_size=20))
def test_any_bytes_are_text_or_refused_in_a_sentence(content: bytes, charset: str) -> None:
    for html in (True, False):
        with suppress(WebError):
            assert "\0" not in decoded(content, charset, html=html)
