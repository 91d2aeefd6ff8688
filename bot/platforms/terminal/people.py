"""Who sits at a terminal: names, and the identities and places they stand for."""

import re

from bot.errors import BadRequestError
from bot.values import Identity, Place

PLATFORM = "terminal"

#: Who you are when you do not say.
DEFAULT_NAME = "me"

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def identity_of(name: str) -> Identity:
    """Return the identity behind a name.

    Raises:
        BadRequestError: It is no name.
    """
    if not _NAME.fullmatch(name):
        raise BadRequestError(
            "A name is 1 to 64 letters, digits, dots, dashes or underscores, such as `alice`."
        )
    return Identity(PLATFORM, "", name)


def place_of(user: Identity) -> Place:
    """Return the place where a person talks: one for each, which nobody else reads."""
    return Place(PLATFORM, channel=user.account)
