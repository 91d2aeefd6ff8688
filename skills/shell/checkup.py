"""Checks that the sandbox passes its self-test."""

import asyncio

from bot.checks import Check, fails, is_off, works
from bot.values import Sections
from skills.files.settings import WorkspaceSettings
from skills.shell.host import SandboxUnavailableError
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
            return [works(text)]
    except SandboxUnavailableError as error:
        return [is_off(f"the shell tool is off. {error}")]
    except TimeoutError:
        text = f"the self-test took more than {PATIENCE_SECONDS} s: look at the machine's load."
        return [fails(text)]
