"""Posts files to the place of a turn, or with the result of a background run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.agent.sanitizer import stored
from bot.conversations.access import is_private
from bot.disk import spoken
from bot.errors import DeliveryError
from bot.platforms.base import MOST_FILE_BYTES, MOST_FILES, FileMessage, OutgoingFile, Outlet
from bot.run_texts import counted
from bot.values import Json
from db import run_files
from db.database import Database
from skills.base import ToolContext, ToolError

__all__ = ["MOST_FILES", "FileSender", "OutgoingFile"]

READ_BY_OTHERS = "others read this place, and the files are from your own workspace"


@dataclass(frozen=True, slots=True)
class FileSender:
    """Posts files through the outlets of this process."""

    outlets: Mapping[str, Outlet]
    database: Database

    async def reason_to_ask(self, context: ToolContext, arguments: Json) -> str:
        """Return the reason to ask before the user's own files go to a place of others.

        Raises:
            ToolError: A path is no text that could be shown.
        """
        paths = arguments.get("paths")
        for path in paths if isinstance(paths, list) else ():
            if stored(str(path)) != str(path):
                raise ToolError(f"There is no file {stored(str(path))[:100]!r}. See file_list.")
        own = not context.shared and not is_private(context.place)
        return READ_BY_OTHERS if own else ""

    async def send(self, context: ToolContext, files: Sequence[OutgoingFile]) -> str:
        """Post files to the place of a call, and return a sentence about it.

        A background run sends them with its result.

        Raises:
            ToolError: They are too large, or the platform does not take them.
        """
        outlet = self.outlets.get(context.place.platform)
        if outlet is None:
            raise ToolError("This process does not serve that platform.")
        if not outlet.takes_files:
            raise ToolError("Files cannot be sent here: they lie in the workspace.")
        size = sum(len(each.content) for each in files)
        if size > MOST_FILE_BYTES:
            raise ToolError(
                f"They have {spoken(size)} together, and {spoken(MOST_FILE_BYTES)} is the most: "
                "send fewer at a time, or smaller ones."
            )
        names = f"{', '.join(each.name for each in files)} ({spoken(size)})"
        if context.run_id is not None and context.background:
            async with self.database.transaction() as tx:
                totals = await run_files.totals(tx, context.run_id)
                if totals is None:
                    raise ToolError("The run is over.")
                count, taken = totals
                if count + len(files) > MOST_FILES or taken + size > MOST_FILE_BYTES:
                    raise ToolError(
                        f"The result has {counted(count, 'file')} ({spoken(taken)}) already, and "
                        f"{MOST_FILES} files with {spoken(MOST_FILE_BYTES)} are the most: send "
                        "the rest as one archive, or name it in your answer."
                    )
                await run_files.add(tx, context.run_id, files, after=count)
            return f"They are sent with your result: {names}."
        key = f"{context.work_id} {context.call_id}"
        try:
            await outlet.send_files(
                FileMessage(place=context.place, owner=context.user, files=files, key=key)
            )
        except DeliveryError as error:
            raise ToolError(f"The files were not sent. {error}") from error
        return f"Sent: {names}."
