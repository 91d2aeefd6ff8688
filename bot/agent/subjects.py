"""What a call is about, as the patterns of permissions see it (pure).

`file_write:notes/*` is about the path, `shell:git *` about the commands: spelled so that a rule
cannot be got around by writing the same thing in another way.
"""

import posixpath
import shlex
from collections.abc import Callable
from urllib.parse import urlsplit

from bot.values import Json

#: The subjects of a call with these arguments; the strictest rule for any of them counts.
Subjects = Callable[[Json], tuple[str, ...]]

#: Stands for what a shell makes of a text by itself: only rules about everything match it.
HIDDEN = "$(…)"
#: Signs between commands.
_BETWEEN = frozenset({";", ";;", "&", "&&", "|", "||", "|&", "(", ")", "\n", "{", "}", "!"})
_WORDS_BETWEEN = frozenset({"then", "do", "else", "elif", "if", "while", "until", "time"})
_HIDING = ("\\\n", "`", "$(", "${", "<(", ">(", "<<", "$'", '$"')


def argument(name: str) -> Subjects:
    """Return what gives one argument as it stands."""

    def subjects(arguments: Json) -> tuple[str, ...]:
        value = arguments.get(name)
        return (str(value),) if value not in (None, "") else ("",)

    return subjects


def path(name: str) -> Subjects:
    """Return what gives the path in an argument, in its one spelling: `a/b` for `./a//x/../b`."""

    def subjects(arguments: Json) -> tuple[str, ...]:
        return (spelled(str(arguments.get(name) or "")),)

    return subjects


def spelled(text: str) -> str:
    """Return a path in its one spelling, from the top of the workspace; `.` is the top."""
    return posixpath.normpath("/" + text).lstrip("/") or "."


def spelled_address(text: str) -> str:
    """Return an address with scheme and host in small letters, and nothing that goes by itself.

    A user name, the port that the scheme has anyway, a final dot of the host and the fragment are
    left out, and there is a path at least `/`.
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


def commands(name: str) -> Subjects:
    """Return what gives each command of a shell script in an argument."""

    def subjects(arguments: Json) -> tuple[str, ...]:
        return commands_in(str(arguments.get(name) or ""))

    return subjects


def commands_in(script: str) -> tuple[str, ...]:
    """Return the commands of a shell script, their words with one blank between.

    What a shell would still put in place of something (`$(…)`, here-documents) cannot be known:
    `HIDDEN` stands for it, so that a rule which allows some commands does not allow that.
    """
    found: list[str] = []
    for line in script.split("\n"):
        try:
            found += _commands_of(line)
        except ValueError:
            # A quotation goes on in the next line: not worth a parser, and not to be guessed.
            found.append(HIDDEN)
    if any(sign in script for sign in _HIDING):
        found.append(HIDDEN)
    return tuple(dict.fromkeys(found)) or ("",)


def _commands_of(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    # In the middle of a word it is no comment for a shell.
    lexer.commenters = ""
    words: list[str] = []
    found: list[list[str]] = [words]
    for word in lexer:
        if word in _BETWEEN or set(word) <= set("();|&") or (word in _WORDS_BETWEEN and not words):
            words = []
            found.append(words)
        elif set(word) <= set("<>&();|"):
            # It reads or writes a file, whatever the command; and another may begin with it.
            words = []
            found += [[HIDDEN], words]
        else:
            words.append(word)
    return [" ".join(words) for words in found if words]
