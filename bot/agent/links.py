"""Recognises Markdown links, and those that mislead about their address (pure)."""

import re
import unicodedata
from urllib.parse import urlsplit

#: A complete link with a label of one line; other link-like text counts as text.
LINK = (
    r"\[(?P<label>(?:[^\[\]\\`\n<>]|`[^`\[\]\n]+`){1,200})\]"
    r"\(<?(?P<url>https?://[^\s<>()\[\]\"'\\`|]+(?:\([^\s<>()\[\]\"'\\`|]*\)[^\s<>()\[\]\"'\\`|]*)*)>?\)"
)
_LINK = re.compile(LINK, re.IGNORECASE)

#: Text that turns the brackets before it into a link whose address the reader does not see.
_LEADS = re.compile(
    r"\]\((?=\s*<?(?:[a-z][a-z0-9+.-]*://|//|www\.|(?:mailto|tel|data|javascript|discord|slack):))",
    re.IGNORECASE,
)

_MARKS = re.compile(r"[*_~|`\\]")
_DOTS = str.maketrans(dict.fromkeys("。｡．․‧·∙⋅•ꓸ۔", "."))
_AUTHORITY = re.compile(r"//+([^\s/?#]*)")
_DOTTED = re.compile(r"(?:[^\W_]|-)+(?:\.(?:[^\W_]|-)+)+")
_WORD = re.compile(r"[^\W\d_]{3}")
_SCHEME = re.compile(r"https?\s*[^\w\s]")
#: Suffixes of file names that are no top-level domains.
_FILES = {
    "c",
    "cfg",
    "conf",
    "css",
    "csv",
    "h",
    "html",
    "ini",
    "ipynb",
    "js",
    "json",
    "jsx",
    "lock",
}
_FILES |= {"log", "sql", "toml", "ts", "tsx", "txt", "xml", "yaml", "yml"}


def misleads(label: str, url: str) -> bool:
    """Return True if a link must not hide its address behind this label.

    This is so if the label names another host, if the label has neither letters nor digits, and if
    the address itself misleads: `https://bank.example@evil.example`.
    """
    shown = unicodedata.normalize("NFKC", _MARKS.sub("", label)).translate(_DOTS).casefold()
    try:
        authority = urlsplit(url).netloc.casefold()
        host = _bare(urlsplit(url).hostname or "")
    except ValueError:
        return True
    if not host or "@" in authority or not any(letter.isalnum() for letter in shown):
        return True
    named = [_bare(each.rpartition("@")[2].partition(":")[0]) for each in _AUTHORITY.findall(shown)]
    named += [_bare(each) for each in _DOTTED.findall(shown) if _names_host(each)]
    if not named and _SCHEME.search(shown):
        return True
    return any(name != host for name in named)


def unmasked(code: str) -> str:
    """Return code in which no link misleads, even on a platform that does not show it as code."""
    if "](" not in code:
        return code
    honest = {
        link.end("label")
        for link in _LINK.finditer(code)
        if not misleads(link["label"], link["url"])
    }
    return _LEADS.sub(lambda found: found.group() if found.start() in honest else "] (", code)


def _bare(host: str) -> str:
    return host.removeprefix("www.").rstrip(".")


def _names_host(dotted: str) -> bool:
    *before, last = dotted.split(".")
    if len(before) == 1 and last in _FILES:
        return False
    if last.isdecimal() or len(last) == 1:
        return len(before) == 3 or _WORD.search(dotted) is not None
    return True
