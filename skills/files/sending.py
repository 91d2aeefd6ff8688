"""Posts files to the place of a turn or run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.agent.sanitizer import stored
from bot.conversations.access import is_private
from bot.disk import spoken
from bot.errors import DeliveryError
from bot.platforms.base import MOST_FILES, OutgoingFile, Outlet
from bot.values import Json
from skills.base import ToolContext, ToolError

__all__ = ["MOST_FILES", "FileSender", "OutgoingFile"]

#: Most bytes of the files of one call: Discord takes 10 MB.
MOST_BYTES = 9_500_000
READ_BY_OTHERS = "others read this place, and the files are from your own workspace"


@dataclass(frozen=True, slots=True)
class FileSender:
    """Posts files through the outlets of this process."""

    outlets: Mapping[str, Outlet]

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

        Raises:
            ToolError: They are too large, or the platform does not take them.
        """
        outlet = self.outlets.get(context.place.platform)
        if outlet is None:
            raise ToolError("This process does not serve that platform.")
        size = sum(len(each.content) for each in files)
        if size > MOST_BYTES:
            raise ToolError(
                f"They have {spoken(size)} together, and {spoken(MOST_BYTES)} is the most: send "
                "fewer at a time, or smaller ones."
            )
        key = f"{context.work_id} {context.call_id}"
        try:
            await outlet.send_files(context.place, context.user, files, key=key)
        except DeliveryError as error:
            raise ToolError(f"The files were not sent. {error}") from error
        return f"Sent: {', '.join(each.name for each in files)} ({spoken(size)})."
