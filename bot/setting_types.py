"""Types and checks that the settings of several sections share."""

import base64
import binascii
import re
from collections.abc import Iterable
from functools import partial
from typing import Annotated, TypeVar

from pydantic import AfterValidator, SecretStr

Named = TypeVar("Named")

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
