"""Types and checks that the settings of several sections share."""

import base64
import binascii
import re
from collections.abc import Iterable
from functools import partial
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, SecretStr

Named = TypeVar("Named")

#: A century, which exceeds the age of any stored data. A time that is so far from now is a valid
#: `datetime`.
MOST_DAYS = 36_500
MOST_MINUTES = MOST_DAYS * 24 * 60
MOST_SECONDS = MOST_MINUTES * 60
#: The longest work and the longest wait, 24 days: the milliseconds fit a 32-bit column.
LONGEST_WORK_MINUTES = 24 * 24 * 60
LONGEST_WORK_SECONDS = LONGEST_WORK_MINUTES * 60
#: The most of anything that is counted: a counter fits a 32-bit column.
MOST_COUNT = 1_000_000
#: The most weighted tokens of a run: with the reserve of a request they fit a 32-bit column.
MOST_TOKENS = 1_000_000_000
#: The largest context: the input of a turn with all its steps fits a 32-bit column.
MOST_CONTEXT_TOKENS = 10_000_000
#: The longest text that a model is sent at once, which a context of that size holds.
MOST_TEXT_CHARACTERS = 10_000_000
#: The most space on a disk, an exabyte: its bytes fit 64 bits.
MOST_DISK_BYTES = 10**18
#: The most memory or space of a command, a petabyte: the kernel accepts it as a limit.
MOST_MEGABYTES = 10**9

#: The users who are answered in direct messages.
DirectMessages = Annotated[
    Literal["members", "paired", "nobody"],
    # A boolean was the type of the setting before.
    BeforeValidator(lambda it: ("members" if it else "nobody") if type(it) is bool else it),
]
#: The treatment of direct messages by that setting, as part of a sentence.
ANSWERED = {
    "members": "answered",
    "paired": "answered after a code",
    "nobody": "not answered",
}

_NAME = re.compile(r"[a-z0-9]+(?:[_-][a-z0-9]+)*")
_MOST_NAME_CHARACTERS = 30


def named(thing: str) -> AfterValidator:
    """Return the validator of a setting that holds things by the names that an admin gives them."""
    return AfterValidator(partial(_check_names, thing))


def _check_names(thing: str, things: dict[str, Named]) -> dict[str, Named]:
    """Check the names that an admin gives to things: no two underscores in a row, none at the end.

    So `mcp__server__tool` is unambiguous.

    Raises:
        ValueError: A name is invalid; the text says what a valid name is.
    """
    for name in things:
        if not _NAME.fullmatch(name) or len(name) > _MOST_NAME_CHARACTERS:
            raise ValueError(
                f"{name[:50]!r} cannot be the name of a {thing}: take up to "
                f"{_MOST_NAME_CHARACTERS} of a-z and 0-9, with single - or _ between them"
            )
    return things


def check_runs(runs: Iterable[str], confirm: Iterable[str]) -> None:
    """Check that runs are not given tools that need a confirmation.

    Raises:
        ValueError: A tool is in both lists.
    """
    if both := sorted({*runs} & {*confirm}):
        raise ValueError(
            f"names {', '.join(both)} in `runs` and in `confirm`; a run has no user to ask"
        )


def plain_secret(secret: SecretStr | None) -> str:
    """Return a secret without surrounding spaces; empty for none."""
    return secret.get_secret_value().strip() if secret else ""


def _checked_key(key: SecretStr | None) -> SecretStr | None:
    """Return a key for encryption; `None` for a blank one.

    Raises:
        ValueError: It is no such key; the text says how one is made.
    """
    given = plain_secret(key)
    if not given:
        return None
    try:
        size = len(base64.urlsafe_b64decode(given))
    except (binascii.Error, ValueError):
        size = 0
    if size != 32:
        raise ValueError(
            "must be 32 random bytes in URL-safe base64; this makes one: python -c "
            '"import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())"'
        )
    return key


#: A key that encrypts tokens in the database; `None` for none.
EncryptionKey = Annotated[SecretStr | None, AfterValidator(_checked_key)]
