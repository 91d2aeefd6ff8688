"""Retention periods of finished work and stored data."""

from pydantic import Field

from bot.setting_types import MOST_DAYS
from bot.values import Settings


class RetentionSettings(Settings):
    """Everything under `retention:`."""

    runs_days: float = Field(90, gt=0, le=MOST_DAYS)
    """Finished runs, with their results, in days."""

    steps_days: float = Field(30, gt=0, le=MOST_DAYS)
    """Steps of finished turns and runs, in days."""

    conversations_days: float = Field(90, gt=0, le=MOST_DAYS)
    """Messages, turns and confirmations; conversations and users with nothing left, in days."""

    context_days: float = Field(30, gt=0, le=MOST_DAYS)
    """Messages in threads that were not for the bot and are kept as context, in days."""

    events_hours: float = Field(24, ge=24, le=MOST_DAYS * 24)
    """Ids of events already answered, in hours (platforms replay)."""

    files_days: float = Field(30, gt=0, le=MOST_DAYS)
    """Files that people attached, and a shared place's files after its last message, in days."""

    undo_days: float = Field(30, gt=0, le=MOST_DAYS)
    """Former versions of files, notes and memories for undo, in days."""

    undelivered_days: float = Field(7, gt=0, le=MOST_DAYS)
    """Announcements that could not be delivered, in days."""

    audit_days: float = Field(365, gt=0, le=MOST_DAYS)
    """The texts of the audit log, in days; hashes, times, actions and pseudonyms stay."""
