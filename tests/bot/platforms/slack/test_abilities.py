"""A feature that Slack refused is tried again later."""

import pytest

from bot.platforms.slack.abilities import TRY_AGAIN_SECONDS, Abilities, Ability
from bot.platforms.slack.problems import RefusedError
from bot.values import Place

CHANNEL, OTHER = Place("slack", "T1", "C1", "1.0"), Place("slack", "T2", "C1", "1.0")


def test_a_feature_that_was_refused_is_tried_again_later() -> None:
    now = 50.0
    abilities = Abilities(now=lambda: now)
    refused = RefusedError("Not here.", "feature_not_enabled")

    abilities.lost(Ability.STREAM, CHANNEL, refused)

    assert not abilities.has(Ability.STREAM, CHANNEL)
    assert abilities.has(Ability.STREAM, OTHER)
    assert abilities.has(Ability.STATUS, CHANNEL)
    now += TRY_AGAIN_SECONDS
    assert abilities.has(Ability.STREAM, CHANNEL)

    abilities.lost(Ability.STREAM, CHANNEL, refused)
    assert not abilities.has(Ability.STREAM, CHANNEL)


@pytest.mark.parametrize("code", ["channel_not_found", "invalid_auth"])
def test_what_the_place_or_the_token_refuses_is_no_missing_feature(code: str) -> None:
    abilities = Abilities(now=lambda: 0.0)

    abilities.lost(Ability.STREAM, CHANNEL, RefusedError("Not here.", code))

    assert abilities.has(Ability.STREAM, CHANNEL)
