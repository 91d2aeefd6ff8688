"""Sandboxed shell commands: they can only access the user's workspace on this machine."""

import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

from pydantic import Field

from bot.agent import subjects
from bot.agent.sanitizer import escape_for_model
from bot.agent.settings import AgentSkillsSettings
from bot.catalog.skills import SkillCatalog
from bot.changes import CAN_BE_UNDONE
from bot.errors import ConfigError
from bot.values import Json
from skills.base import Audience, Effects, Reach, Skill, ToolContext, ToolError, tool
from skills.declaration import BotServices, SkillDeclaration, SkillParts
from skills.files.settings import WorkspaceSettings
from skills.files.workspaces import Workspaces
from skills.shell.host import SandboxUnavailableError
from skills.shell.packages import hint, installed, python_folder
from skills.shell.recipe import ShownFolders
from skills.shell.selftest import open_sandbox
from skills.shell.settings import ShellSettings
from skills.shell.shell import QUEUE_SECONDS, CommandResult, NotStartedError, Sandbox
from skills.shell.skill_copies import SkillCopies, own_folder
from skills.shell.slots import SlotsBusyError

log = logging.getLogger(__name__)


#: The most paths that the result of a command names.
_MOST_NAMED = 20

#: Time for the queue of commands, and for the end of one.
_FURTHER_SECONDS = QUEUE_SECONDS + 30.0

GUIDE = """\
`shell` is for programs, conversions, calculations and scripts, on the files in the workspace.\
"""


def build(sandbox: Sandbox, workspaces: Workspaces, copies: SkillCopies | None = None) -> Skill:
    """Return the skill that runs commands in a tested sandbox, each on the files of its user.

    Args:
        sandbox: Runs the commands.
        workspaces: The files of users.
        copies: Copies of the folders of Agent Skills, which commands see; `None` for no skills.
    """
    packages = python_folder(sandbox.settings)
    default, most = sandbox.settings.default_seconds, sandbox.settings.max_seconds

    async def reach_of(context: ToolContext, _: Json) -> Reach:
        kept = await workspaces.use(context, lambda workspace: workspace.can_restore_all())
        return Reach.CHANGES_OWN if kept else Reach.DESTROYS

    @tool(
        effects=Effects.ONCE,
        timeout_seconds=most + _FURTHER_SECONDS,
        subjects=subjects.commands("command"),
        foreign=True,
        private=True,
        audience=Audience.PLACE,
        reach=Reach.DESTROYS,
        reach_of=reach_of,
    )
    async def shell(
        context: ToolContext,
        command: Annotated[str, Field(min_length=1)],
        timeout_seconds: Annotated[float, Field(ge=1, le=most), "Killed after this"] = default,
    ) -> str:
        """Run a shell command in /workspace, in a sandbox without network or input.

        Only files there stay, and no processes. Others see them when it has ended. Returns exit
        code and output; of a long one only beginning and end, so write it to a file.
        """
        try:
            workspace, user = workspaces.of(context), context.user.key
            async with AsyncExitStack() as stack:
                skills = await stack.enter_async_context(copies.shown(context)) if copies else None
                found = installed(packages)
                python = found.environment if found else None
                ended = await sandbox.run(
                    command,
                    workspace,
                    user=user,
                    seconds=timeout_seconds,
                    shown=ShownFolders(skills=skills, python=python),
                )
        except SlotsBusyError as error:
            raise ToolError(str(error)) from None
        except NotStartedError:
            raise ToolError(
                "The sandbox did not start, and nothing was run. Try again later, or go on without."
            ) from None
        return told(ended, hint(ended.output, sandbox.settings, found))

    def guide() -> str:
        found = installed(packages)
        return f"{GUIDE} Its `python` has {found.named}." if found else GUIDE

    return Skill(
        name="shell",
        description="Runs shell commands in a sandbox.",
        tools=(shell,),
        guide=guide,
    )


def told(ended: CommandResult, hint: str = "") -> str:
    """Return the result of a command for the model.

    It names the files that differ from the state in which the command left them.

    Args:
        ended: The result.
        hint: A sentence about what the command lacked.
    """
    code, files, output = ended.code, ended.files, ended.output
    said = [f"Exit code {code}."]
    if ended.reason:
        said = [f"It was ended: {ended.reason} (Exit code {code}.)"]
    if files.problem:
        said.append(files.problem)
    if files.conflicts:
        versions = [f"{mine} for {theirs}" for theirs, mine in files.conflicts]
        said.append(
            "Somebody else changed some of its files meanwhile; what is theirs stays, and this "
            f"command's versions are {_listed(versions)}."
        )
    if files.kept:
        names = _listed(files.kept)
        said.append(f"Not removed, since somebody else changed it meanwhile: {names}.")
    if files.can_be_undone:
        said.append(CAN_BE_UNDONE)
    if files.lost:
        said.append(f"Cannot be restored: {_listed(files.lost)}.")
    if files.left_out:
        said.append("Devices, pipes and sockets that it made were not kept.")
    if hint:
        said.append(hint)
    # Escape each part by itself: markup in the beginning must not push out the end.
    parts = [escape_for_model(part, limit=len(part) + 1) for part in (output.head, output.tail)]
    text = parts[0]
    if output.missing:
        text = f"{text}\n[… {output.missing:,} bytes left out here …]\n{parts[1]}"
    began = " ".join(said)
    return f"{began}\n\n{text}" if text.strip() else f"{began} It printed nothing."


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    text = ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    return escape_for_model(text, limit=len(text) + 1)


async def _open(stack: AsyncExitStack, services: BotServices) -> SkillParts:
    """Open the sandbox for commands; without a sandbox the shell tool is not offered."""
    files = services.config.section(WorkspaceSettings)
    if not files.enabled:
        return SkillParts()
    settings = services.config.section(ShellSettings)
    try:
        sandbox = await stack.enter_async_context(open_sandbox(settings))
    except SandboxUnavailableError as error:
        log.info("The shell tool is off. %s", error)
        return SkillParts()
    workspaces = Workspaces(files, reserve=services.reserve)
    copies = None
    if folders := services.config.section(AgentSkillsSettings).folders:
        # The skill `agent_skills` reports the problems of the folders.
        catalog = SkillCatalog([Path(each) for each in folders], reports=False)
        try:
            own = stack.enter_context(own_folder(Path(settings.folder) / "skills"))
        except OSError as error:
            raise ConfigError(
                f"`shell.folder` ({settings.folder}) cannot be used: {error.strerror}."
            ) from None
        copies = SkillCopies(catalog, own, reserve=services.reserve)
    return SkillParts(skills=(build(sandbox, workspaces, copies),))


SKILL = SkillDeclaration(open=_open)
