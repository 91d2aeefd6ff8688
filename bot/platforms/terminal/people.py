"""Maps user names at the terminal to identities and places."""

import re

from bot.errors import BadRequestError
from bot.values import Identity, Place

PLATFORM = "terminal"

#: The name of a user who gives none.
DEFAULT_NAME = "me"

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def identity_of(name: str) -> Identity:
    """Return the identity of a name.

    Raises:
        BadRequestError: The name is invalid.
    """
    if not _NAME.fullmatch(name):
        raise BadRequestError(
            "A name is 1 to 64 letters, digits, dots, dashes or underscores, such as `alice`."
        )
    return Identity(PLATFORM, "", name)


def place_of(user: Identity) -> Place:
    """Return the place of a user's conversation; each user has a private one."""
    return Place(PLATFORM, channel=user.account)
