"""Reads response bodies: limits size, decompression and media type, and decodes text."""

import codecs
import io
import re
import zlib
from collections.abc import AsyncIterable
from dataclasses import dataclass

from bot.net.base import WebError

KILOBYTE = 1024
MEGABYTE = 1024 * KILOBYTE
#: Largest decompressed size of a page, and largest compression ratio.
MOST_UNPACKED = 5 * MEGABYTE
MOST_RATIO = 100
#: The ratio is not checked below this size: a small page of one repeated letter is no bomb.
_RATIO_FROM = 128 * KILOBYTE

ENCODINGS = "gzip, deflate"

_ENCODINGS = {"": "", "identity": "", "gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}

_UNREADABLE = "The page is packed in a way that cannot be read. Use another."
_INCOMPLETE = "The page broke off before its end. Try again, or use another."
_BOMB = "The page unpacks to far more than it says, and is not read. Use another."

_TEXTS = re.compile(
    r"text/[a-z0-9.+-]+|application/(?:[a-z0-9.+-]+\+)?(?:json|xml|yaml)"
    r"|application/(?:ld\+json|x-ndjson|jsonl|x-yaml|toml|javascript|x-javascript|ecmascript|sql"
    r"|graphql|x-sh|rtf|x-httpd-php)|image/svg\+xml|message/rfc822"
)
HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})

#: The accepted charsets. Python knows more: some take time quadratic in the text, or are no
#: charsets.
_CHARSETS = frozenset(
    codecs.lookup(name).name
    for name in (
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "us-ascii", "koi8-r", "koi8-u", "gbk"),
        *("gb2312", "gb18030", "big5", "shift_jis", "euc-jp", "iso-2022-jp", "euc-kr", "cp949"),
        *(f"iso8859-{number}" for number in (*range(1, 12), *range(13, 17))),
        *("cp866", "cp874", "cp932", *(f"cp{number}" for number in range(1250, 1259))),
    )
)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?([a-z0-9_:-]{2,40})", re.I)
_META_WITHIN = 2 * KILOBYTE
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """Size limits of a body.

    Attributes:
        wire: Bytes as received.
        unpacked: Bytes after decompression.
        streams: Whether a stream of events is read, which may have no end.
    """

    wire: int = 2 * MEGABYTE
    unpacked: int = MOST_UNPACKED
    streams: bool = True


async def read_body(
    chunks: AsyncIterable[bytes], encoding: str, limits: BodyLimits
) -> tuple[bytes, bool]:
    """Return a decompressed body, and True if it was truncated at a limit.

    Args:
        chunks: As received, still compressed.
        encoding: The header Content-Encoding; only gzip and deflate are known.
        limits: The size limits.

    Raises:
        WebError: The compression is unknown, the body is a decompression bomb or incomplete.
    """
    known = _ENCODINGS.get(encoding.strip().lower())
    if known is None:
        raise WebError(_UNREADABLE)
    inflater: zlib._Decompress | None = None
    # Unlike a bytearray it gives its content away without a copy, which takes 10 ms for 20 MB.
    body = io.BytesIO()
    wire = size = 0
    async for chunk in chunks:
        taken = chunk[: limits.wire - wire]
        wire += len(taken)
        if known and taken and inflater is None:
            inflater = _inflater(known, taken[0])
        # Never more at once than is kept.
        most = limits.unpacked + 1 - size
        if inflater is None:
            size += body.write(taken[:most])
        # Data after the end of the stream is ignored, as browsers do.
        elif not inflater.eof:
            try:
                size += body.write(inflater.decompress(taken, most))
            except zlib.error:
                raise WebError(_UNREADABLE) from None
        waiting = 0 if inflater is None else len(inflater.unconsumed_tail)
        if size > max(MOST_RATIO * (wire - waiting), _RATIO_FROM):
            raise WebError(_BOMB)
        if size > limits.unpacked or len(taken) < len(chunk):
            body.truncate(min(size, limits.unpacked))
            return body.getvalue(), True
    # An empty body is valid (HEAD, 304).
    if inflater is not None and not inflater.eof:
        raise WebError(_INCOMPLETE)
    return body.getvalue(), False


def _inflater(encoding: str, first: int) -> "zlib._Decompress":
    """Return the decompressor for a body in "gzip" or "deflate" that begins with this byte."""
    if encoding == "gzip":
        return zlib.decompressobj(16 + zlib.MAX_WBITS)
    # "deflate" should mean zlib's format, but some servers send the raw stream.
    is_zlib = first & 0x0F == zlib.DEFLATED
    return zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)


def check_type(media_type: str) -> None:
    """Raise unless a body of this media type is text; an empty type passes.

    Raises:
        WebError: The type is no text.
    """
    if media_type and not _TEXTS.fullmatch(media_type):
        raise WebError(
            "What is there is no text: only web pages, plain text, JSON, XML and the like are "
            "read. Look for a page about it."
        )


def decoded(content: bytes, charset: str, *, html: bool = False) -> str:
    """Decode a body to text: in the declared charset, else in UTF-8 or the likely charset.

    Args:
        content: The body.
        charset: From the server.
        html: Also accept a charset that the body itself declares.

    Raises:
        WebError: The body is no text.
    """
    for mark, name in _MARKS:
        if content.startswith(mark):
            return _text(content[len(mark) :].decode(name, "replace"))
    known = _known(charset)
    if not known and html and (meta := _META.search(content[:_META_WITHIN])):
        known = _known(meta[1].decode("ascii"))
    if known:
        return _text(content.decode(known, "replace"))
    try:
        content.decode()
    except UnicodeDecodeError as error:
        # The last character may have been truncated; a body of one partial character stays
        # undecided.
        if error.reason == "unexpected end of data" and not content[: error.start].isascii():
            return _text(content.decode("utf-8", "ignore"))
        return _text(content.decode("cp1252", "replace"))
    return _text(content.decode())


def _known(charset: str) -> str:
    try:
        name = codecs.lookup(charset.strip()).name if charset.isascii() else ""
    except (LookupError, ValueError):
        return ""
    # On the web, Latin-1 means cp1252.
    name = "cp1252" if name in {"iso8859-1", "ascii"} else name
    return name if name in _CHARSETS else ""


def _text(text: str) -> str:
    if "\0" in text:
        raise WebError("What is there is no text, whatever the server calls it. Use another page.")
    return text
