"""Recognises the kind of a file: a claim by name and type, a fact by content (pure)."""

import io
import zipfile
from enum import StrEnum


class Claim(StrEnum):
    """The kind that a file claims to be by its name and type."""

    TEXT = "text"
    IMAGE = "image"
    OTHER = "other"
    UNKNOWN = "unknown"


_TYPES = """
json xml xhtml yaml x-yaml toml javascript ecmascript x-javascript typescript sql graphql x-sh
x-shellscript x-httpd-php x-python x-ndjson jsonl rtf x-tex x-subrip
"""
_SUFFIXES = """
txt text md markdown rst adoc org tex log out diff patch csv tsv json jsonl ndjson yaml yml toml ini
cfg conf env properties xml xsd xsl svg html htm css scss sass less vue svelte js mjs cjs jsx ts tsx
mts cts py pyi ipynb rb php pl pm lua r jl go rs c h cc cpp cxx hpp hh m mm cs fs vb java kt kts
scala groovy gradle clj ex exs erl hs ml swift dart zig nim sh bash zsh fish ps1 bat cmd sql graphql
proto tf hcl nix dockerfile makefile cmake lock srt vtt ics vcf eml
"""

#: Types below `application/` that are text.
TEXT_TYPES = frozenset(_TYPES.split())
TEXT_SUFFIXES = frozenset(_SUFFIXES.split())
IMAGE_SUFFIXES = frozenset(
    {"png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "heic", "heif", "avif", "ico"}
)

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_PDF = b"%PDF-"


def claimed_kind(name: str, media_type: str) -> Claim:
    """Return the kind that a file claims.

    The name takes precedence over the type: by its type TypeScript (`.ts`) is a video.
    """
    suffix = name.rpartition(".")[2].strip().lower()
    if suffix in TEXT_SUFFIXES:
        return Claim.TEXT
    if suffix in IMAGE_SUFFIXES:
        return Claim.IMAGE
    main, _, rest = media_type.partition(";")[0].strip().lower().partition("/")
    if main == "text" or rest in TEXT_TYPES or rest.endswith(("+json", "+xml", "+yaml")):
        return Claim.TEXT
    if main == "image":
        return Claim.IMAGE
    return Claim.OTHER if main in {"audio", "video", "font"} else Claim.UNKNOWN


#: The media types of documents, and an entry of the archive by which each is recognised.
_OFFICE = "application/vnd.openxmlformats-officedocument."
PDF, ARCHIVE = "application/pdf", "application/zip"
OFFICE_TYPES = {
    b"word/document.xml": f"{_OFFICE}wordprocessingml.document",
    b"xl/workbook.xml": f"{_OFFICE}spreadsheetml.sheet",
    b"ppt/presentation.xml": f"{_OFFICE}presentationml.presentation",
}


def document_type(content: bytes) -> str:
    """Return the media type of a document whose text can be extracted; empty for others."""
    if content.startswith(_PDF):
        return PDF
    if not content.startswith(b"PK\x03\x04") or not zipfile.is_zipfile(io.BytesIO(content)):
        return ""
    # The names of the entries of an archive are not compressed.
    return next((kind for name, kind in OFFICE_TYPES.items() if name in content), ARCHIVE)


def image_type(content: bytes) -> str:
    """Return the media type of an image that models accept; empty for any other content."""
    # Every image has zero bytes; a text that begins like an image has none.
    if b"\0" not in content:
        return ""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if content.startswith(magic)), "")


def text_in(content: bytes, kind: Claim) -> str | None:
    """Return the text of a content, or `None`; only a claimed text may have a legacy encoding."""
    if content.startswith(_UTF_16):
        return _decoded(content, "utf-16")
    if b"\0" in content or content.startswith(_PDF):
        return None
    text = _decoded(content, "utf-8-sig")
    if text is None and kind is Claim.TEXT:
        text = _decoded(content, "cp1252")
        return content.decode("latin-1") if text is None else text
    return text


def _decoded(content: bytes, encoding: str) -> str | None:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return None
