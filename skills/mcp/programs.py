"""Checks that the program and the folder of a server exist on this machine."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from skills.mcp.settings import McpServerSettings


def missing(settings: McpServerSettings, environ: Mapping[str, str]) -> str:
    """Return a text about the missing program or folder; empty when both exist."""
    if not settings.command:
        return ""
    if settings.folder is not None and not Path(settings.folder).is_dir():
        return f"there is no folder {settings.folder}"
    program = settings.command[0]
    if os.sep in program:
        # Resolved relative to the folder where it is started.
        found = shutil.which(Path(settings.folder or ".").absolute() / program)
    else:
        found = shutil.which(program, path=environ.get("PATH"))
    return "" if found else f"there is no program {program}"
