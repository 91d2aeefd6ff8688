"""Files in the workspace that a user and their agents share."""

from functools import partial
from typing import Annotated

from pydantic import Field

from bot.agent import subjects
from bot.changes import CAN_BE_UNDONE
from bot.disk import spoken
from bot.events import FilesAttached, FilesDeleted
from bot.run_texts import counted
from bot.subagents.retention import RetentionSettings
from bot.values import Json
from skills.base import (
    Audience,
    Effects,
    Reach,
    Skill,
    Tool,
    ToolContext,
    ToolError,
    reads_here,
    tool,
)
from skills.declaration import BotServices, SkillDeclaration, SkillParts
from skills.files import search
from skills.files.cleanup import Cleanup
from skills.files.inbox import Inbox
from skills.files.patterns import expression, path_pattern
from skills.files.sending import MOST_FILES, FileSender, OutgoingFile
from skills.files.settings import WorkspaceSettings
from skills.files.undoing import FileChanges
from skills.files.wording import edited, listed, shown_rows, shown_text, to_write, with_path
from skills.files.workspace import Workspace, WriteResult
from skills.files.workspaces import Workspaces

MOST_PATHS = 200
MOST_LINES = 2_000

GUIDE = """\
The user has a workspace of files that you and your runs share; paths begin at its top. \
Attached files lie below inbox/."""

_Path = Annotated[str, "Such as notes/today.md"]
_Folder = Annotated[str, "A folder; the whole workspace if empty"]


def build(workspaces: Workspaces, sender: FileSender | None = None) -> Skill:
    """Return the skill for the files in these workspaces; with a sender, they can be posted."""
    read, *find = _reading(workspaces)
    sending = (_sending(workspaces, sender),) if sender else ()
    return Skill(
        name="files",
        description="The files in a user's workspace.",
        tools=(read, *_writing(workspaces), *find, *sending),
        guide=GUIDE,
    )


def _reading(workspaces: Workspaces) -> tuple[Tool, ...]:
    reads = reads_here(subjects=subjects.path("path"), foreign=True, private=True)

    @reads
    async def file_read(
        context: ToolContext,
        path: _Path,
        offset: Annotated[int, Field(ge=1), "First line"] = 1,
        limit: Annotated[int, Field(ge=1, le=MOST_LINES)] = MOST_LINES,
        column: Annotated[int, Field(ge=1), "Where to begin in a long line"] = 1,
        *,
        line_numbers: bool = False,
    ) -> str:
        """Read a text file; of a long one the first line says how to go on."""

        def work(workspace: Workspace) -> str:
            content = workspace.read(path)
            return shown_text(
                path, content, offset=offset, limit=limit, column=column, numbered=line_numbers
            )

        return await workspaces.use(context, work)

    @reads
    async def file_list(
        context: ToolContext,
        path: _Folder = "",
        depth: Annotated[int, Field(ge=1, le=10), "Levels"] = 3,
    ) -> str:
        """List a folder as a tree, with sizes."""

        def work(workspace: Workspace) -> str:
            with workspace.walk(path, deepest=depth) as looking:
                return listed(looking, path)

        return await workspaces.use(context, work)

    @reads
    async def glob(
        context: ToolContext,
        pattern: Annotated[str, "`*.md` (in the folder), `**/*.{js,ts}` (also below)"],
        path: _Folder = "",
    ) -> str:
        """Find files by their paths, the last changed first."""

        def work(workspace: Workspace) -> str:
            paths, more = search.newest(workspace, path, path_pattern(pattern), MOST_PATHS)
            return shown_rows(paths, more=more, nothing="No file fits. See file_list.")

        return await workspaces.use(context, work)

    @reads
    async def grep(
        context: ToolContext,
        pattern: Annotated[str, "RE2, within one line"],
        path: Annotated[str, "Folder or file"] = "",
        files: Annotated[str, "Only these: `*.py`, `src/**/*.ts`"] = "",
        *,
        ignore_case: bool = False,
        names_only: Annotated[bool, "Files, not lines"] = False,
    ) -> str:
        """Find lines by a regular expression; gives `path:line: text`."""

        def work(workspace: Workspace) -> str:
            wanted = files if "/" in files or not files else f"**/{files}"
            found = search.search(
                workspace,
                expression(pattern, ignore_case=ignore_case),
                path,
                path_pattern(wanted) if wanted else None,
                names_only=names_only,
                most=MOST_PATHS,
            )
            nothing = f"Nothing found in {counted(found.looked, 'file')}."
            if found.too_large:
                nothing += f" {found.too_large:,} more are too large to look into."
            lines = [
                hit.path if names_only else f"{hit.path}:{hit.line}: {hit.text}"
                for hit in found.hits
            ]
            return shown_rows(lines, more=found.more, nothing=nothing)

        return await workspaces.use(context, work)

    return file_read, file_list, glob, grep


def _writing(workspaces: Workspaces) -> tuple[Tool, ...]:
    async def reach_of(context: ToolContext, given: Json) -> Reach:
        """Return the reach of writing: overwriting a very large file destroys it."""
        try:
            kept = await workspaces.use(
                context, lambda workspace: workspace.can_restore(str(given.get("path", "")))
            )
        except ToolError:
            # The call itself reports the problem with the path.
            kept = True
        return Reach.CHANGES_OWN if kept else Reach.DESTROYS

    writes = partial(
        tool,
        subjects=subjects.path("path"),
        foreign=False,
        private=False,
        audience=Audience.PLACE,
        reach=Reach.DESTROYS,
        reach_of=reach_of,
    )

    @writes(effects=Effects.REPEATABLE)
    async def file_write(context: ToolContext, path: _Path, text: str) -> str:
        """Write a text file, in place of all it held. To change a part, use file_edit."""

        def work(workspace: Workspace) -> str:
            written = workspace.write(path, to_write(text))
            done = "Made" if written.created else "Replaced the text of"
            return with_path(f"{done} {{}}: {spoken(written.size)}.{_undo(written)}", path)

        return await workspaces.use(context, work)

    # A second call would not find the text, or would find it in the text that the first one wrote.
    @writes(effects=Effects.ONCE)
    async def file_edit(
        context: ToolContext,
        path: _Path,
        old: str,
        new: Annotated[str, "Empty to delete"],
        *,
        replace_all: bool = False,
    ) -> str:
        """Replace a text that stands in a file once, to the letter, without line numbers.

        Write < > & where file_read showed &lt; &gt; &amp;.
        """

        def work(workspace: Workspace) -> str:
            count = 0

            def change(content: bytes) -> bytes:
                nonlocal count
                changed, count = edited(path, content, old, new, everywhere=replace_all)
                return changed

            written = workspace.edit(path, change)
            places = "1 match" if count == 1 else f"{count:,} matches"
            text = f"Replaced {places} in {{}}: {spoken(written.size)} now.{_undo(written)}"
            return with_path(text, path)

        return await workspaces.use(context, work)

    return file_write, file_edit


def _sending(workspaces: Workspaces, sender: FileSender) -> Tool:
    @tool(
        effects=Effects.ONCE,
        subjects=subjects.paths("paths"),
        foreign=False,
        private=False,
        audience=Audience.PLACE,
        reach=Reach.CHANGES_OWN,
        reason_to_ask=sender.reason_to_ask,
    )
    async def file_send(
        context: ToolContext,
        paths: Annotated[list[str], Field(min_length=1, max_length=MOST_FILES)],
    ) -> str:
        """Post files here, where the user can download them; a run posts them with its result."""

        def work(workspace: Workspace) -> list[OutgoingFile]:
            return [OutgoingFile(path.rpartition("/")[2], workspace.read(path)) for path in paths]

        return await sender.send(context, await workspaces.use(context, work))

    return file_send


def _undo(written: WriteResult) -> str:
    if written.lost:
        return " What it held was too large to be kept, and cannot be restored."
    return f" {CAN_BE_UNDONE}" if written.kept else ""


def _parts(services: BotServices) -> SkillParts:
    settings = services.config.section(WorkspaceSettings)
    # Undo and cleanup may use the space that writes must leave free.
    unreserved = Workspaces(settings)
    inbox = Inbox(
        Workspaces(settings, reserve=services.reserve),
        services.database,
        services.tasks,
        services.outlets,
        services.now,
    )
    services.events.subscribe(FilesAttached, inbox.on_attached)
    services.events.subscribe(FilesDeleted, inbox.on_deleted)
    retention = services.config.section(RetentionSettings)
    cleanup = Cleanup(unreserved, services.database, retention, services.now)
    return SkillParts(
        skills=(
            build(
                Workspaces(settings, reserve=services.reserve),
                FileSender(services.outlets, services.database),
            ),
        ),
        changes=FileChanges(unreserved, services.now),
        periodic=(cleanup.run,),
    )


SKILL = SkillDeclaration(build=_parts)
