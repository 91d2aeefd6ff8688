"""Reads the files that a request sends from the workspace of a call."""

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bot.conversations.file_kinds import document_type, image_type
from bot.disk import spoken
from bot.errors import ToolError
from bot.net.base import FormPart
from skills.base import ToolContext
from skills.files.workspace import Workspace
from skills.files.workspaces import Workspaces
from skills.rest.requests import FilePart

UNKNOWN_TYPE = "application/octet-stream"
#: Types that the table of Python lacks.
_FURTHER_TYPES = {
    ".md": "text/markdown",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
_IS_OFF = (
    "It sends files, and users have no files here: an admin can change that "
    "(`workspaces.enabled`). Tell the user, or go on without it."
)


@dataclass(frozen=True, slots=True)
class UploadReader:
    """Reads files for the requests of services.

    Attributes:
        workspaces: The workspaces; `None` where nobody has files.
    """

    workspaces: Workspaces | None

    async def read(
        self, context: ToolContext, parts: Sequence[FormPart | FilePart], *, most: int
    ) -> tuple[FormPart, ...]:
        """Return the parts of a form with the content of their files.

        Args:
            context: The call.
            parts: The parts.
            most: Most bytes of all files together.

        Raises:
            ToolError: A file cannot be read or sent; the text has the reason.
        """
        if not any(isinstance(each, FilePart) for each in parts):
            return tuple(each for each in parts if isinstance(each, FormPart))
        if self.workspaces is None:
            raise ToolError(_IS_OFF)
        return await self.workspaces.use(context, lambda files: _filled(files, parts, most))


def _filled(
    workspace: Workspace, parts: Sequence[FormPart | FilePart], most: int
) -> tuple[FormPart, ...]:
    filled: list[FormPart] = []
    size = 0
    for part in parts:
        if isinstance(part, FormPart):
            filled.append(part)
            continue
        content = workspace.read(part.path)
        size += len(content)
        if size > most:
            raise ToolError(
                f"The files have more than {spoken(most)} together, which is the most that is sent "
                "at once. Send fewer, or smaller ones."
            )
        name = part.path.rstrip("/").rpartition("/")[2]
        media_type = _sent_as(part, name, _type_of(name, content))
        filled.append(
            FormPart(name=part.name, content=content, file_name=name, media_type=media_type)
        )
    return tuple(filled)


def _type_of(name: str, content: bytes) -> str:
    """Return the media type of a file: by its content if that is known, else by its name."""
    # The tables of this machine would make the type depend on it.
    table = mimetypes.MimeTypes(())
    for suffix, media_type in _FURTHER_TYPES.items():
        table.add_type(media_type, suffix)
    by_name, encoding = table.guess_type(name)
    return (
        image_type(content)
        or document_type(content)
        or ((not encoding and by_name) or UNKNOWN_TYPE)
    )


def _sent_as(part: FilePart, name: str, media_type: str) -> str:
    """Return the media type under which a file is sent.

    Raises:
        ToolError: The service does not take files of this type.
    """
    if not part.media_types:
        return media_type
    if any(fnmatchcase(media_type, each.partition(";")[0]) for each in part.media_types):
        return media_type
    if UNKNOWN_TYPE in part.media_types:
        return UNKNOWN_TYPE
    raise ToolError(
        f"`{part.name}` takes {' or '.join(part.media_types)}, and {name} is {media_type}. "
        "Send a file of that kind."
    )
