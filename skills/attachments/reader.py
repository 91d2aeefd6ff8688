"""Reads the files that were attached to the messages of a conversation, as text."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.errors import BadRequestError
from bot.isolated import run_isolated
from db import files
from db.database import Database
from db.files import StoredFile

_SCRIPT = Path(__file__).with_name("extract.py")
#: Limits of the process that reads a document.
SECONDS, MEGABYTES = 30.0, 1_000
#: Documents that are read at the same time in this process.
AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class AttachmentReader:
    """Reads the attached files of conversations."""

    database: Database
    room: asyncio.Semaphore

    async def files(self, conversation_id: str) -> Sequence[StoredFile]:
        """Return the files of a conversation, newest first."""
        async with self.database.snapshot() as tx:
            return await files.of_conversation(tx, conversation_id)

    async def text(self, conversation_id: str, name: str, part: str = "") -> str:
        """Return the text of the newest attached file of a name.

        Args:
            conversation_id: The conversation.
            name: The name of the file.
            part: The entry of an archive.

        Raises:
            BadRequestError: There is no such file, or it cannot be read.
        """
        async with self.database.snapshot() as tx:
            known = await files.of_conversation(tx, conversation_id)
            found = next((each for each in known if each.name == name), None)
            if found is None:
                names = ", ".join(dict.fromkeys(each.name for each in known)) or "none"
                raise BadRequestError(f"There is no file {name[:100]!r}. There are: {names}.")
            content = (await files.contents_of(tx, [found.id]))[found.id]
        if not found.media_type:
            return content.decode()
        if not found.is_document:
            raise BadRequestError("That is an image: it stands in the conversation itself.")
        try:
            async with self.room:
                out = await run_isolated(
                    _SCRIPT,
                    *(found.media_type, part),
                    given=content,
                    seconds=SECONDS,
                    megabytes=MEGABYTES,
                )
        except (TimeoutError, ChildProcessError):
            raise BadRequestError(
                "It needs more time or memory than I may use. Ask for a smaller file."
            ) from None
        answer = json.loads(out)
        if "error" in answer:
            raise BadRequestError(f"The file cannot be read. {answer['error']}")
        return str(answer["text"])
