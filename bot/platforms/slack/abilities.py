"""The features of Slack that a workspace refused: not tried again for a while."""

import logging
import time
from collections.abc import Callable
from enum import StrEnum

from bot.platforms.slack.problems import CONTENT, RefusedError
from bot.values import Place

log = logging.getLogger(__name__)

#: After this time a feature that was refused is tried again: an app may be given it meanwhile, and
#: a refusal may have been a fault of the moment.
TRY_AGAIN_SECONDS = 600.0


class Ability(StrEnum):
    """Something that Slack gives to some apps, in some workspaces."""

    STREAM = "answers that stream"
    STATUS = "the line that says that the bot is thinking"
    SESSION = "the Stop button of Slack itself"


class Abilities:
    """Remembers which features were refused where.

    Args:
        now: A clock in seconds that never goes back.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._refused: dict[tuple[Ability, str, str], float] = {}

    def has(self, ability: Ability, place: Place) -> bool:
        """Return whether a feature may work in places of this kind."""
        refused = self._refused.get(_key(ability, place))
        return refused is None or self._now() - refused >= TRY_AGAIN_SECONDS

    def lost(self, ability: Ability, place: Place, error: RefusedError) -> None:
        """Do not try a feature there for a while, unless it is the place that is gone."""
        if error.token_refused or error.code in CONTENT:
            return
        if error.place_gone and error.code not in _OF_THE_KIND:
            return
        if self.has(ability, place):
            log.info("Slack does not have %s in %s: %s", ability, place.workspace, error)
        self._refused[_key(ability, place)] = self._now()


#: Said about channels, or direct messages, or groups of people, as such.
_OF_THE_KIND = frozenset({"channel_type_not_supported", "method_not_supported_for_channel_type"})


def _key(ability: Ability, place: Place) -> tuple[Ability, str, str]:
    """Return what is remembered under one key: ids of channels begin with their kind."""
    return ability, place.workspace, place.channel[:1]
