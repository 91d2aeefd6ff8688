"""What turned out not to work in a workspace: remembered, so that it is not tried every time."""

import logging
from enum import StrEnum

from bot.platforms.slack.problems import CONTENT, RefusedError
from bot.values import Place

log = logging.getLogger(__name__)


class Ability(StrEnum):
    """Something that Slack gives to some apps, in some workspaces."""

    STREAM = "answers that stream"
    STATUS = "the line that says that the bot is thinking"
    SESSION = "the Stop button of Slack itself"


class Abilities:
    """What works where, as far as it is known."""

    def __init__(self) -> None:
        self._missing: set[tuple[Ability, str, str]] = set()

    def has(self, ability: Ability, place: Place) -> bool:
        """Whether something may work in places of this kind."""
        return _key(ability, place) not in self._missing

    def lost(self, ability: Ability, place: Place, error: RefusedError) -> None:
        """Remember that something does not work there, unless it is the place that is gone."""
        if error.token_refused or error.code in CONTENT:
            return
        if error.place_gone and error.code not in _OF_THE_KIND:
            return
        if self.has(ability, place):
            log.info("Slack does not have %s in %s: %s", ability, place.workspace, error)
        self._missing.add(_key(ability, place))


#: Said about channels, or direct messages, or groups of people, as such.
_OF_THE_KIND = frozenset({"channel_type_not_supported", "method_not_supported_for_channel_type"})


def _key(ability: Ability, place: Place) -> tuple[Ability, str, str]:
    """Return what is remembered under one key: ids of channels begin with their kind."""
    return ability, place.workspace, place.channel[:1]
