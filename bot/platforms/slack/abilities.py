"""Remembers Slack features that a workspace does not support."""

import logging
import time
from collections.abc import Callable
from enum import StrEnum

from bot.platforms.slack.problems import CONTENT, RefusedError
from bot.values import Place

log = logging.getLogger(__name__)

#: Time after which a refused feature is tried again, in seconds: the app may have been granted the
#: feature meanwhile, and the refusal may have been temporary.
TRY_AGAIN_SECONDS = 600.0


class Ability(StrEnum):
    """A feature that Slack grants to some apps in some workspaces."""

    STREAM = "answers that stream"
    STATUS = "the line that says that the bot is thinking"
    SESSION = "the Stop button of Slack itself"


class Abilities:
    """Remembers refused features by workspace and kind of channel.

    Args:
        now: A monotonic clock in seconds.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._refused: dict[tuple[Ability, str, str], float] = {}

    def has(self, ability: Ability, place: Place) -> bool:
        """Return True if a feature may work in places of this kind."""
        refused = self._refused.get(_key(ability, place))
        return refused is None or self._now() - refused >= TRY_AGAIN_SECONDS

    def lost(self, ability: Ability, place: Place, error: RefusedError) -> None:
        """Record the refusal of a feature.

        Ignores refusals caused by the token, the content or one single place.
        """
        if error.token_refused or error.code in CONTENT:
            return
        if error.place_gone and error.code not in _OF_THE_KIND:
            return
        if self.has(ability, place):
            log.info("Slack does not have %s in %s: %s", ability, place.workspace, error)
        self._refused[_key(ability, place)] = self._now()


#: Refusals that concern a kind of channel (channels, direct messages, groups), not one channel.
_OF_THE_KIND = frozenset({"channel_type_not_supported", "method_not_supported_for_channel_type"})


def _key(ability: Ability, place: Place) -> tuple[Ability, str, str]:
    """Return the key of a refusal; the first letter of a channel's id is the kind of channel."""
    return ability, place.workspace, place.channel[:1]
