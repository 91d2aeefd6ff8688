"""The settings of conversations, of catching up on missed messages, and of the audit log."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from bot.conversations.access import is_private
from bot.setting_types import MOST_MINUTES
from bot.values import PERSONAL, ConversationMode, Place, Settings

Mode = Literal["shared", "personal"]
AnswerRule = Literal["mentions", "conversation", "all"]
#: `discord`, `discord:CHANNEL`, or `slack:TEAM:CHANNEL`.
PlaceName = Annotated[str, Field(pattern=r"^[a-z]+(:[A-Za-z0-9_-]+){0,2}$")]
LEAST_KEY_CHARACTERS = 32


class ConversationSettings(Settings):
    """Everything under `conversations:`."""

    mode: Mode = "shared"
    """shared: everyone in a thread talks with the bot in one conversation. personal: each user has
    a conversation there. Direct messages are always personal.
    """

    places: Mapping[PlaceName, Mode] = Field({})
    """Other modes for a platform or a channel: `discord`, `discord:CHANNEL` or
    `slack:TEAM:CHANNEL`, and shared or personal.
    """

    answers: AnswerRule = "conversation"
    """mentions: the bot answers messages that mention or answer it. conversation: in threads in
    which it takes part, it also answers users who talk with it. all: it answers every message.
    """

    answers_in: Mapping[PlaceName, AnswerRule] = Field({})
    """Other rules for a platform or a channel, named as in `places`."""

    context_messages: int = Field(50, ge=0, le=100)
    """The most messages above the first mention that are read; 0 for none."""

    context_tokens: int = Field(4_000, ge=0, le=50_000)
    """The most tokens of these messages, estimated; 0 for none."""

    context_minutes: float = Field(60, gt=0, le=24 * 60)
    """For a mention outside of a thread: the time before it whose messages are read, in minutes."""

    listen_minutes: float = Field(15, ge=0, le=MOST_MINUTES)
    """The time after a user's last turn in which that user needs no mention, in a thread where
    several people have spoken and nobody else since the bot's answer, in minutes.
    """

    silence_minutes: float = Field(60, gt=0, le=MOST_MINUTES)
    """In a channel whose answers are in no thread: the silence after which a new conversation
    begins, in minutes.
    """

    def at(self, place: Place) -> ConversationMode:
        """Return the mode of the conversations of a place."""
        if is_private(place):
            return PERSONAL
        mode = next((self.places[name] for name in _names(place) if name in self.places), self.mode)
        if mode == "personal":
            return PERSONAL
        silence = None if place.thread else timedelta(minutes=self.silence_minutes)
        return ConversationMode(shared=True, silence=silence)

    def answers_at(self, place: Place) -> AnswerRule:
        """Return the rule by which messages without a mention are answered in a place."""
        rules = self.answers_in
        return next((rules[name] for name in _names(place) if name in rules), self.answers)

    @property
    def reads_above(self) -> bool:
        """True if the messages above the first mention are read."""
        return self.context_messages > 0 and self.context_tokens > 0


def _names(place: Place) -> tuple[str, ...]:
    """Return the names under which a place has settings, the most exact first."""
    platform, channel = place.platform, place.channel
    return f"{platform}:{place.workspace}:{channel}", f"{platform}:{channel}", platform


class CatchUpSettings(Settings):
    """Everything under `catch_up:`."""

    enabled: bool = True
    """Read what was said while the bot was not listening."""

    hours: float = Field(1, gt=0, le=24)
    """The most to look back, in hours."""

    places: int = Field(100, ge=1, le=1_000)
    """The most places to read; a thread is a place of its own."""

    messages: int = Field(50, ge=1, le=200)
    """The newest messages to read in a place."""

    days: float = Field(7, gt=0, le=90)
    """Channels and threads are read if the bot said something in so many days; direct messages
    always.
    """

    quote_after_minutes: float = Field(10, gt=0, le=MOST_MINUTES)
    """An answer to a message older than this quotes it."""


class AuditSettings(Settings):
    """Everything under `audit:`."""

    key: SecretStr | None = Field(None, min_length=LEAST_KEY_CHARACTERS)
    """Seals the audit log: a random text of at least 32 characters, the same for all processes,
    such as "${RETINUE_AUDIT_KEY}". null: the bot makes one in the file `audit.key` of its data
    folder, which is enough for one machine.
    """

    former_keys: tuple[SecretStr, ...] = ()
    """Keys that sealed older entries, so that these can still be verified."""
