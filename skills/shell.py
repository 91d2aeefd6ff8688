"""Shell commands, shut in: they see the person's workspace and nothing else of this machine."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import Field

from bot.agent import subjects
from bot.agent.sanitizer import escape_for_model
from bot.sandbox.settings import ShellSettings
from bot.sandbox.shell import QUEUE_SECONDS, Ended, NotStartedError
from bot.sandbox.slots import SlotsBusyError
from skills.base import Effects, Reach, Skill, ToolContext, ToolError, tool


class Runner(Protocol):
    """Runs commands, shut in: `bot.sandbox.shell.Sandbox`."""

    @property
    def settings(self) -> ShellSettings:
        """What a command may use."""
        ...

    async def run(
        self, command: str, folder: Path, *, user: str, seconds: float | None = None, counted: Path
    ) -> Ended:
        """Run a command of a user in a folder; `counted` holds all that is the user's.

        Raises:
            NotStartedError: Nothing was run.
            SlotsBusyError: Nothing was run, since no slot became free in time.
        """
        ...


#: Gives a folder of whoever calls; it may block.
FolderOf = Callable[[ToolContext], Path]

#: For the queue of commands, and for the end of one.
_FURTHER_SECONDS = QUEUE_SECONDS + 30.0

GUIDE = """\
`shell` is for programs, conversions, calculations and scripts, on the files in the workspace.\
"""


def build(sandbox: Runner, folder_of: FolderOf, counted_of: FolderOf) -> Skill:
    """Return the skill that runs commands.

    Args:
        sandbox: Has passed its self-test; where there is none, this skill is not offered.
        folder_of: Gives the workspace of whoever calls.
        counted_of: Gives what holds all workspaces of that person, which share their room.
    """
    settings = sandbox.settings
    default, most = settings.default_seconds, settings.max_seconds

    @tool(
        effects=Effects.ONCE,
        timeout_seconds=most + _FURTHER_SECONDS,
        subjects=subjects.commands("command"),
        foreign=True,
        private=True,
        reach=Reach.ACTS_BEYOND,
    )
    async def shell(
        context: ToolContext,
        command: Annotated[str, Field(min_length=1)],
        timeout_seconds: Annotated[float, Field(ge=1, le=most), "Killed after this"] = default,
    ) -> str:
        """Run a shell command in /workspace, in a sandbox without network or input.

        Only files there stay, and no processes. Returns exit code and output; of a long one only
        beginning and end, so write it to a file.
        """
        folder = await asyncio.to_thread(folder_of, context)
        counted = await asyncio.to_thread(counted_of, context)
        try:
            ended = await sandbox.run(
                command, folder, user=context.user.key, seconds=timeout_seconds, counted=counted
            )
        except SlotsBusyError as error:
            raise ToolError(str(error)) from None
        except NotStartedError:
            raise ToolError(
                "The sandbox did not start, and nothing was run. Try again later, or go on without."
            ) from None
        return told(ended)

    return Skill(
        name="shell",
        description="Runs shell commands in a sandbox.",
        tools=(shell,),
        guide=GUIDE,
    )


def told(ended: Ended) -> str:
    """Return how a command ended, for the model."""
    output = ended.output
    # Each by itself: a beginning full of markup must not push out the end.
    parts = [escape_for_model(part, limit=len(part) + 1) for part in (output.head, output.tail)]
    text = parts[0]
    if output.missing:
        text = f"{text}\n[… {output.missing:,} bytes left out here …]\n{parts[1]}"
    began = (
        f"It was ended: {ended.reason} (Exit code {ended.code}.)"
        if ended.reason
        else f"Exit code {ended.code}."
    )
    return f"{began}\n\n{text}" if text.strip() else f"{began} It printed nothing."
