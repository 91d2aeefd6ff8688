"""Runs the commands of tool calls, each on the workspace of its call."""

from skills.base import ToolContext
from skills.files.workspaces import Workspaces
from skills.shell.settings import ShellSettings
from skills.shell.shell import CommandResult, Sandbox


class SandboxCommands:
    """Runs the commands of tool calls.

    Args:
        sandbox: A sandbox that has passed its self-test.
        workspaces: The files of all users.
    """

    def __init__(self, sandbox: Sandbox, workspaces: Workspaces) -> None:
        self._sandbox, self._workspaces = sandbox, workspaces

    @property
    def settings(self) -> ShellSettings:
        """The limits of a command."""
        return self._sandbox.settings

    async def run(self, context: ToolContext, command: str, *, seconds: float) -> CommandResult:
        """Run a command and wait for its end.

        Raises:
            NotStartedError: Nothing was run.
            SlotsBusyError: Nothing was run, since no slot became free in time.
            ToolError: Nothing was run; the text has the reason.
        """
        workspace = self._workspaces.of(context)
        return await self._sandbox.run(command, workspace, user=context.user.key, seconds=seconds)

    async def can_be_undone(self, context: ToolContext) -> bool:
        """Return True if all files that a command may replace or remove can be restored."""
        return await self._workspaces.use(context, lambda workspace: workspace.can_restore_all())
