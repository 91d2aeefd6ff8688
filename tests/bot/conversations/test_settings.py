"""The mode of a place: shared or personal, and the silence after which it begins anew."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from bot.conversations.settings import ConversationSettings
from bot.values import PERSONAL, Place

THREAD = Place("slack", "T1", "C1", "17.1")
CHANNEL = Place("discord", "7", "8")


@pytest.mark.parametrize(
    "place", [Place("terminal"), Place("discord", "", "5"), Place("slack", "T1", "D1", "17.1")]
)
def test_direct_messages_and_the_terminal_are_personal(place: Place) -> None:
    assert ConversationSettings().at(place) == PERSONAL


def test_a_channel_outside_of_threads_begins_anew_after_a_silence() -> None:
    settings = ConversationSettings(silence_minutes=5)

    assert settings.at(CHANNEL).silence == timedelta(minutes=5)
    assert settings.at(THREAD).silence is None
    assert settings.at(THREAD).shared


@pytest.mark.parametrize("name", ["slack", "slack:C1", "slack:T1:C1"])
def test_a_platform_or_a_channel_may_differ(name: str) -> None:
    settings = ConversationSettings(places={name: "personal"})

    assert not settings.at(THREAD).shared
    assert settings.at(CHANNEL).shared


def test_a_channel_precedes_its_platform() -> None:
    settings = ConversationSettings(
        mode="personal", places={"slack": "personal", "slack:C1": "shared"}
    )

    assert settings.at(THREAD).shared
    assert not settings.at(CHANNEL).shared


def test_a_place_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValidationError):
        ConversationSettings(places={"a b": "shared"})
