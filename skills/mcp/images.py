"""Takes images and linked texts out of results of MCP servers.

Images are shown to the model, and saved in the workspace.
"""

import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.agent.messages import Media
from bot.conversations.file_kinds import image_type
from bot.disk import DiskReserve, spoken
from bot.errors import ToolError
from bot.values import Json
from skills.base import ToolContext
from skills.files.settings import WorkspaceSettings
from skills.files.workspaces import Workspaces

log = logging.getLogger(__name__)

#: Most images of one result that are shown and saved.
MOST_IMAGES = 5
#: Most linked texts of one result that are read.
MOST_LINKED = 5
#: Types of linked texts beside `text/…`.
_TEXTS = frozenset({"application/json", "application/xml", "application/yaml"})
FOLDER = "images"

#: Saves a content under a path in the workspace of a call; raises `ToolError` if it cannot.
Save = Callable[[ToolContext, str, bytes], Awaitable[None]]
#: Reads a resource of the server by its URI, and returns its contents; raises `ToolError`.
Read = Callable[[str], Awaitable[list[Json]]]


def saving_to(settings: WorkspaceSettings, reserve: DiskReserve | None) -> Save:
    """Return a function that saves contents in the workspace of a call."""
    workspaces = Workspaces(settings, reserve=reserve)

    async def save(context: ToolContext, path: str, content: bytes) -> None:
        await workspaces.use(context, lambda workspace: workspace.write(path, content))

    return save


@dataclass(frozen=True, slots=True)
class ImageTaker:
    """Takes the images out of the results of one server.

    Attributes:
        server: The name of the server.
        save: Saves them; `None` where nobody has files.
    """

    server: str
    save: Save | None

    async def take(self, result: Json, context: ToolContext, read: Read) -> Json:
        """Show and save the images of a result, and read the texts that it links to.

        Return it with a line in place of each image, and the text behind each such link.
        """
        content = result.get("content")
        if not isinstance(content, list):
            return result
        taken: list[object] = []
        count = linked = 0
        for item in content:
            if linked < MOST_LINKED and (text := await _linked_text(item, read)) is not None:
                linked += 1
                taken += [item, text]
                continue
            image = await _image_in(item, read) if count < MOST_IMAGES else None
            if image is None:
                taken.append(item)
                continue
            count += 1
            taken.append({"type": "text", "text": await self._line(image, context)})
        return {**result, "content": taken}

    async def _line(self, image: bytes, context: ToolContext) -> str:
        kind = image_type(image)
        suffix = kind.rpartition("/")[2].replace("jpeg", "jpg")
        media = Media(kind, image, "")
        path = f"{FOLDER}/{self.server}-{media.digest[:8]}.{suffix}"
        context.show(Media(kind, image, path))
        what = f"image {path}, {spoken(len(image))}, shown with this result"
        if self.save is None:
            return f"[{what}]"
        try:
            await self.save(context, path, image)
        except ToolError as error:
            return f"[{what}, but not saved: {error}]"
        return f"[{what}, and saved in the workspace]"


async def _linked_text(item: object, read: Read) -> Json | None:
    """Return the text behind a link as a part of a result; `None` for another part."""
    match item:
        case {"type": "resource_link", "uri": str(uri), "mimeType": str(kind)}:
            kind = kind.partition(";")[0].strip().lower()
            if not kind.startswith("text/") and kind not in _TEXTS:
                return None
            texts = await _contents(uri, read, "text")
            return {"type": "text", "text": "\n".join(texts)} if texts else None
    return None


async def _image_in(item: object, read: Read) -> bytes | None:
    """Return the image in a part of a result; `None` for another part."""
    match item:
        case {"type": "image", "data": str(data)} | {
            "type": "resource",
            "resource": {"blob": str(data)},
        }:
            return _decoded(data)
        case {"type": "resource_link", "uri": str(uri), "mimeType": str(kind)}:
            if not kind.startswith("image/"):
                return None
            blobs = await _contents(uri, read, "blob")
            return next(filter(None, map(_decoded, blobs)), None)
    return None


async def _contents(uri: str, read: Read, kind: str) -> list[str]:
    """Return the contents of a kind behind a link; none if it cannot be read."""
    try:
        contents = await read(uri)
    except ToolError as error:
        log.info("A resource of an MCP server was not read: %s", error)
        return []
    return [found for each in contents if isinstance(found := each.get(kind), str)]


def _decoded(data: str) -> bytes | None:
    try:
        content = b64decode(data, validate=True)
    except ValueError:
        return None
    return content if image_type(content) else None
