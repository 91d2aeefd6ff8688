"""How long finished things are kept."""

from pydantic import Field

from bot.values import Settings


class RetentionSettings(Settings):
    """Everything under `retention:`."""

    runs_days: float = Field(90, gt=0, description="Finished runs, in days.")
    steps_days: float = Field(30, gt=0, description="Steps of finished turns and runs, in days.")
    events_hours: float = Field(
        24, ge=24, description="Ids of events already answered, in hours (platforms replay)."
    )
    files_days: float = Field(30, gt=0, description="Files that people attached, in days.")
    undo_days: float = Field(
        30, gt=0, description="Former versions of files, notes and memories for undo, in days."
    )
    undelivered_days: float = Field(
        7, gt=0, description="Announcements that could not be delivered, in days."
    )
