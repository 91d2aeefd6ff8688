"""Whether what a server needs on this machine is there, as far as can be seen."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from bot.mcp.settings import McpServerSettings


def missing(settings: McpServerSettings, environ: Mapping[str, str]) -> str:
    """Return what is not there of a program and its folder; empty when nothing is amiss."""
    if not settings.command:
        return ""
    if settings.folder is not None and not Path(settings.folder).is_dir():
        return f"there is no folder {settings.folder}"
    program = settings.command[0]
    if os.sep in program:
        # Looked for where it is started from.
        found = shutil.which(Path(settings.folder or ".").absolute() / program)
    else:
        found = shutil.which(program, path=environ.get("PATH"))
    return "" if found else f"there is no program {program}"
