"""Reads the files that were attached to the messages of a conversation, as text or as pages."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.agent.messages import Media
from bot.agent.sanitizer import escape_for_model, one_line
from bot.conversations.file_kinds import PDF
from bot.disk import spoken
from bot.errors import BadRequestError
from bot.isolated import run_isolated
from bot.values import Json
from db import files
from db.database import Database
from db.files import StoredFile

_SCRIPT = Path(__file__).with_name("extract.py")
#: As in the script, which this process does not import: it loads a library that reads PDFs.
COUNT_PAGES = "count-pages"
#: Limits of the process that reads a document.
SECONDS, MEGABYTES = 30.0, 1_000
#: Limits of a PDF that is shown to a model, as its pages.
MOST_SHOWN_BYTES, MOST_SHOWN_PAGES = 20_000_000, 100
#: Documents that are read at the same time in this process.
AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class AttachmentReader:
    """Reads the attached files of conversations."""

    database: Database
    room: asyncio.Semaphore

    async def files(self, conversation_id: str) -> Sequence[StoredFile]:
        """Return the files of a conversation, newest first."""
        return await self.database.read(files.of_conversation, conversation_id)

    async def text(self, conversation_id: str, name: str, part: str = "") -> str:
        """Return the text of the newest attached file of a name.

        Args:
            conversation_id: The conversation.
            name: The name of the file.
            part: The entry of an archive.

        Raises:
            BadRequestError: There is no such file, or it cannot be read.
        """
        found, content = await self._find(conversation_id, name)
        if not found.media_type:
            return content.decode()
        if not found.is_document:
            raise BadRequestError("That is an image: look at it with show=true.")
        return str((await self._extract(content, found.media_type, part))["text"])

    async def media(self, conversation_id: str, name: str) -> Media:
        """Return the newest attached image or PDF of a name, to be shown to a model.

        Raises:
            BadRequestError: There is no such file, or it is too large or of another kind.
        """
        found, content = await self._find(conversation_id, name)
        shown = one_line(escape_for_model(name), 120)
        if found.media_type.startswith("image/"):
            return Media(found.media_type, content, shown)
        if found.media_type != PDF:
            raise BadRequestError("Only images and PDFs are shown: read its text.")
        if len(content) > MOST_SHOWN_BYTES:
            raise BadRequestError(
                f"It has {spoken(len(content))}, and a PDF of at most {spoken(MOST_SHOWN_BYTES)} "
                "is shown: read its text."
            )
        pages = int((await self._extract(content, COUNT_PAGES))["pages"])
        if not 0 < pages <= MOST_SHOWN_PAGES:
            raise BadRequestError(
                f"It has {pages:,} pages, and a PDF of at most {MOST_SHOWN_PAGES} is shown: read "
                "its text."
            )
        return Media(PDF, content, shown, pages)

    async def _find(self, conversation_id: str, name: str) -> tuple[StoredFile, bytes]:
        async with self.database.snapshot() as tx:
            known = await files.of_conversation(tx, conversation_id)
            found = next((each for each in known if each.name == name), None)
            if found is None:
                names = ", ".join(dict.fromkeys(each.name for each in known)) or "none"
                raise BadRequestError(f"There is no file {name[:100]!r}. There are: {names}.")
            return found, (await files.contents_of(tx, [found.id]))[found.id]

    async def _extract(self, content: bytes, *arguments: str) -> Json:
        """Run the script on a document, and return its answer."""
        try:
            async with self.room:
                out = await run_isolated(
                    _SCRIPT, *arguments, given=content, seconds=SECONDS, megabytes=MEGABYTES
                )
        except (TimeoutError, ChildProcessError):
            raise BadRequestError(
                "It needs more time or memory than I may use. Ask for a smaller file."
            ) from None
        answer: Json = json.loads(out)
        if "error" in answer:
            raise BadRequestError(f"The file cannot be read. {answer['error']}")
        return answer
