"""Sends users a copy of everything that is stored about them, to them alone."""

import asyncio
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bot.conversations.access import is_private
from bot.conversations.personal_data import PersonalData
from bot.disk import spoken
from bot.errors import DeliveryError, NotFoundError
from bot.platforms.base import FileMessage, OutgoingFile, Outlet
from bot.run_texts import counted
from bot.values import Identity, Place

#: Largest archive, in bytes: Discord takes files of 10 MB.
ARCHIVE_BYTES = 9_000_000
TERMINAL = "terminal"
#: The end of the name of a saved copy.
_COPY = r"-retinue-(usage-|audit-)?\d{4}-\d\d-\d\d(-\d+)?\.(zip|csv|jsonl)"
NOT_SENT = (
    "I could not send it to you directly. {reason} Allow direct messages to me, or ask an admin "
    "for it: `python -m bot export-user`."
)


@dataclass(frozen=True, slots=True)
class SavedCopies:
    """The copies of users at the terminal, which are deleted with the user's other data."""

    folder: Path

    def save(self, user: Identity, file: OutgoingFile) -> str:
        """Save a file where only the bot's account can read it, and return the path."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.folder / f"{_file_name(user)}-{file.name}"
        path.unlink(missing_ok=True)
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(path, new, 0o600), "wb") as saved:
            saved.write(file.content)
        return str(path.absolute())

    def files(self, _: Identity) -> Iterator[tuple[str, bytes | None]]:
        """Yield nothing: a copy does not contain earlier copies."""
        return iter(())

    def delete(self, user: Identity) -> None:
        """Delete all copies of a user; repeated, it does nothing."""
        if user.platform != TERMINAL or not self.folder.exists():
            return
        theirs = re.compile(re.escape(_file_name(user)) + _COPY)
        for path in self.folder.iterdir():
            if theirs.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def delete_sent(self, owner: str, name: str, content: bytes) -> None:
        """Do nothing: no place has copies."""


def _file_name(user: Identity) -> str:
    """Return the beginning of the names of a user's copies, which no other user has."""
    return user.account.replace("%", "%25").replace("/", "%2F")


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalCopies:
    """Sends copies of stored data in direct messages, or saves them for a user at the terminal."""

    data: PersonalData
    outlets: Mapping[str, Outlet]
    saved: SavedCopies

    async def send(self, user: Identity, place: Place, key: str) -> str:
        """Send a copy to a user who asked for it in a place; return a sentence about it.

        Args:
            user: The user.
            place: The place; the copy is sent there only if nobody else reads it.
            key: The idempotency key.

        Raises:
            NotFoundError: It could not be sent; the text has the reason.
        """
        sizes: list[int] = []
        where = "our direct messages"
        archives = self.data.archives(user, room=ARCHIVE_BYTES)
        async with aclosing(archives):
            async for archive in archives:
                content = await asyncio.to_thread(_content, archive)
                number = f"-{len(sizes) + 1}" if sizes else ""
                file = OutgoingFile(f"retinue-{self.data.now():%Y-%m-%d}{number}.zip", content)
                where = await self.deliver(file, user, place, f"export {key} {len(sizes)}")
                sizes.append(len(content))
        what = f"{counted(len(sizes), 'file')}, {spoken(sum(sizes))}"
        return f"All that I have stored about you is in {where} ({what})."

    async def deliver(self, file: OutgoingFile, user: Identity, place: Place, key: str) -> str:
        """Send a file to a user alone, or save it at the terminal; return where it is.

        Raises:
            NotFoundError: It could not be sent; the text has the reason.
        """
        if place.platform == TERMINAL:
            return await asyncio.to_thread(self.saved.save, user, file)
        alone = place
        if not is_private(place):
            # Without a channel, it is sent to the user directly.
            alone = Place(place.platform, place.workspace)
        outlet = self.outlets.get(place.platform)
        if outlet is None:
            raise NotFoundError(NOT_SENT.format(reason="That platform is not served here."))
        try:
            await outlet.send_files(FileMessage(place=alone, owner=user, files=[file], key=key))
        except DeliveryError as error:
            raise NotFoundError(NOT_SENT.format(reason=error)) from error
        return "our direct messages"


def _content(archive: IO[bytes]) -> bytes:
    archive.seek(0)
    return archive.read()
