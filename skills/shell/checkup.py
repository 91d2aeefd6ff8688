"""Checks that the sandbox passes its self-test."""

import asyncio

from bot.checks import Check, fails, is_off, works
from bot.values import Sections
from skills.files.settings import WorkspaceSettings
from skills.shell.host import SandboxUnavailableError
from skills.shell.installing import state_of
from skills.shell.selftest import enforced, open_sandbox
from skills.shell.settings import ShellSettings

SUBJECT = "Sandbox"

PATIENCE_SECONDS = 10


async def checks(config: Sections) -> list[Check]:
    """Return the result of the sandbox's self-test."""
    files, settings = config.section(WorkspaceSettings), config.section(ShellSettings)
    if not files.enabled:
        return [is_off("off: `workspaces.enabled` is false.")]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), open_sandbox(settings) as sandbox:
            text = (
                f"{sandbox.host.bwrap} passes its self-test: the shell tool is on. "
                f"{enforced(sandbox)}."
            )
        return [works(text), *await asyncio.to_thread(_packages, settings)]
    except SandboxUnavailableError as error:
        return [is_off(f"the shell tool is off. {error}")]
    except TimeoutError:
        text = f"the self-test took more than {PATIENCE_SECONDS} s: look at the machine's load."
        return [fails(text)]


def _packages(settings: ShellSettings) -> list[Check]:
    """Return the state of the Python packages, if there are or should be any."""
    found, amiss = state_of(settings)
    if amiss:
        return [fails(f"the Python packages are not as configured: {amiss}.")]
    return [works(f"Python packages: {found.named}.")] if found else []
