"""Settings of schedules (`schedules:`)."""

from typing import ClassVar

from pydantic import Field

from bot.setting_types import MOST_COUNT
from bot.values import SkillSettings


class ScheduleSettings(SkillSettings):
    """Everything under `schedules:`."""

    section: ClassVar[str] = "schedules"
    about: ClassVar[str] = "Work that users have done at a later time."

    enabled: bool = True
    """Whether users may have work done at a later time, once or again and again."""

    max_per_user: int = Field(20, ge=1, le=MOST_COUNT)
    """Schedules of one user that are not over."""

    min_minutes_between: int = Field(5, ge=1, le=1440)
    """The least time between two fires of one schedule."""

    max_failures_in_a_row: int = Field(3, ge=1, le=MOST_COUNT)
    """A schedule ends after so many runs in a row that did not complete."""
