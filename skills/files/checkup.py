"""Checks that the folder of the workspaces is usable."""

import asyncio
from pathlib import Path

from bot.checks import Check, fails
from bot.values import Sections
from db.diagnosis import folder_trouble
from skills.files.settings import WorkspaceSettings

SUBJECT = "Files"


async def checks(config: Sections) -> list[Check]:
    """Return the trouble with the folder, if there is any."""
    settings = config.section(WorkspaceSettings)
    trouble = await asyncio.to_thread(_trouble, settings) if settings.enabled else None
    return [fails(f"`workspaces.folder`: {trouble}")] if trouble else []


def _trouble(settings: WorkspaceSettings) -> str | None:
    return folder_trouble(Path(settings.folder).expanduser().absolute())
