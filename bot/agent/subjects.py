"""Extracts the subjects of calls, which the patterns of permissions match (pure).

The subject for `file_write:notes/*` is the path; the subjects for `shell:git *` are the commands.
Subjects are normalised, so that another spelling does not bypass a rule.
"""

import posixpath
import shlex
from collections.abc import Callable
from urllib.parse import urlsplit

from bot.values import Json

#: Returns the subjects of a call with these arguments; the strictest rule for any of them counts.
Subjects = Callable[[Json], tuple[str, ...]]

#: Stands for text that a shell generates; only patterns for every subject match it.
HIDDEN = "$(…)"
#: Separators of commands.
_BETWEEN = frozenset({";", ";;", "&", "&&", "|", "||", "|&", "(", ")", "\n", "{", "}", "!"})
_WORDS_BETWEEN = frozenset({"then", "do", "else", "elif", "if", "while", "until", "time"})
_HIDING = ("\\\n", "`", "$(", "${", "<(", ">(", "<<", "$'", '$"')


def argument(name: str, read: Callable[[str], tuple[str, ...]] = lambda text: (text,)) -> Subjects:
    """Return a function that extracts the subjects in one argument: by default its text."""

    def subjects(arguments: Json) -> tuple[str, ...]:
        value = arguments.get(name)
        return read("" if value is None else str(value))

    return subjects


def path(name: str) -> Subjects:
    """Return a function that extracts a normalised path: `a/b` for `./a//x/../b`."""
    return argument(name, lambda text: (spelled(text),))


def paths(name: str) -> Subjects:
    """Return a function that extracts the normalised paths of a list."""

    def subjects(arguments: Json) -> tuple[str, ...]:
        found = arguments.get(name)
        return tuple(spelled(str(each)) for each in found) if isinstance(found, list) else ()

    return subjects


def commands(name: str) -> Subjects:
    """Return a function that extracts each command of a shell script."""
    return argument(name, commands_in)


def spelled(text: str) -> str:
    """Return a path normalised from the top of the workspace; `.` is the top."""
    return posixpath.normpath("/" + text).lstrip("/") or "."


def spelled_address(text: str) -> str:
    """Return a normalised address, with scheme and host in lower case.

    A user name, the default port of the scheme, a final dot of the host and the fragment are left
    out. An empty path becomes `/`. Text that is no address with a host is only stripped.
    """
    try:
        parts = urlsplit(text.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return text.strip()
    if not host:
        return text.strip()
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    place = f"[{host}]" if ":" in host else host
    place += f":{port}" if port is not None and port != usual else ""
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{place}{parts.path or '/'}{query}"


def commands_in(script: str) -> tuple[str, ...]:
    """Return the commands of a shell script, their words joined by single spaces.

    The results of substitutions (`$(…)`, here-documents) are unknown. `HIDDEN` stands for them, so
    that a rule which allows some commands does not allow a substitution.
    """
    found: list[str] = []
    for line in script.split("\n"):
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        # In the middle of a word `#` begins no comment for a shell.
        lexer.commenters = ""
        words: list[str] = []
        parts: list[list[str]] = [words]
        try:
            for word in lexer:
                begins = word in _WORDS_BETWEEN and not words
                if word in _BETWEEN or set(word) <= set("();|&") or begins:
                    words = []
                    parts.append(words)
                elif set(word) <= set("<>&();|"):
                    # A redirection reads or writes a file, whatever the command; and it may begin
                    # another.
                    words = []
                    parts += [[HIDDEN], words]
                else:
                    words.append(word)
        except ValueError:
            # A quotation spans several lines: not worth a parser, and not safe to guess.
            parts = [[HIDDEN]]
        found += [" ".join(words) for words in parts if words]
    if any(sign in script for sign in _HIDING):
        found.append(HIDDEN)
    return tuple(dict.fromkeys(found)) or ("",)
