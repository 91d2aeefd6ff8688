"""Fetches and checks attached files, and explains the refusal of others."""

import asyncio
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from bot.agent.plain import clean
from bot.conversations.file_kinds import Claim, claimed_kind, document_type, image_type, text_in
from bot.disk import DiskFullError, DiskReserve
from bot.errors import DeliveryError
from bot.platforms.messages import Attachment, Quoted
from bot.values import File, Live, Settings

log = logging.getLogger(__name__)

NAME_CHARACTERS = 100
NAME_READ = 1_000
NAMES_TOLD = 5
MEGABYTE = 1_000_000


class FileSettings(Settings):
    """Everything under `files:`."""

    per_message: int = Field(10, ge=0, le=20)
    """Files that are taken with one message; 0 takes none."""

    text_bytes: int = Field(200_000, ge=1_000, le=2_000_000)
    """The largest text that is taken, in bytes."""

    # Anthropic takes 5 MiB, measured as base64.
    image_bytes: int = Field(3_900_000, ge=10_000, le=15_000_000)
    """The largest image that is taken, in bytes; Claude takes no larger one."""

    document_bytes: int = Field(10_000_000, ge=1_000, le=25_000_000)
    """The largest document that is taken (PDF, Word, Excel, PowerPoint, ZIP), in bytes."""

    fetch_seconds: float = Field(30, gt=0, le=300)
    """The longest time in which the platform gives a file, in seconds."""


@dataclass(frozen=True, slots=True)
class AttachmentSettings:
    """The settings of attached files, and the disk space that attachments must leave free."""

    files: Live[FileSettings]
    reserve: DiskReserve


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedFiles:
    """The accepted files and the refusals of one message.

    Attributes:
        refusals: Sentences for the user about refused files: the name, the reason, and a remedy.
    """

    files: tuple[File, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[Quoted, ...]:
        """The refusals in the stored form, so that the agent knows of files that it lacks."""
        return tuple(Quoted("note", each) for each in self.refusals)


def not_read_yet(attached: Sequence[Attachment]) -> AcceptedFiles:
    """Return a note for each file of a message, to be stored until the files are fetched."""
    refusals = [f"The file {file_name(each.name)} has not been read." for each in attached]
    return AcceptedFiles(refusals=tuple(refusals[:NAMES_TOLD]))


async def take(
    attached: Sequence[Attachment], settings: FileSettings, reserve: DiskReserve | None = None
) -> AcceptedFiles:
    """Fetch the files of a message concurrently, and return those that a model can be shown.

    No file is fetched when only the reserve of the disk is left. The time is hardly longer than
    `files.fetch_seconds`, whatever the platform does.
    """
    try:
        (reserve or DiskReserve()).check()
    except DiskFullError:
        why, instead = "my disk is nearly full", "Ask an admin to make room, then send it again."
        names = [file_name(each.name) for each in attached[:NAMES_TOLD]]
        return AcceptedFiles(refusals=tuple(_refused(name, why, instead) for name in names))
    wanted, surplus = attached[: settings.per_message], attached[settings.per_message :]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_take(each, settings), name="take a file") for each in wanted]
    outcomes = [task.result() for task in tasks]
    refusals = [each for each in outcomes if isinstance(each, str)]
    if surplus:
        names = [file_name(each.name) for each in surplus[:NAMES_TOLD]]
        names += [f"{len(surplus) - NAMES_TOLD} more"] if len(surplus) > NAMES_TOLD else []
        which = f"file {names[0]} was" if len(names) == 1 else f"files {', '.join(names)} were"
        most = settings.per_message
        why = f"I take up to {most} with one message" if most else "I take no files here"
        instead = "Send more with the next message." if most else "Write what matters as a message."
        refusals.append(f"The {which} not taken: {why}. {instead}")
    files = tuple(each for each in outcomes if isinstance(each, File))
    return AcceptedFiles(files=files, refusals=tuple(refusals))


async def _take(attached: Attachment, settings: FileSettings) -> File | str:
    """Return a file, or the sentence about its refusal."""
    name = file_name(attached.name)
    claim, size = claimed_kind(name, attached.media_type), attached.size
    texts, images = settings.text_bytes, settings.image_bytes
    if claim is Claim.OTHER:
        return _unreadable(name, claim)
    if claim is Claim.TEXT:
        most = texts
    elif claim is Claim.IMAGE:
        most = max(texts, images)
    else:
        most = max(texts, images, settings.document_bytes)
    if size > most:
        return _too_large(name, size, settings)
    try:
        async with asyncio.timeout(settings.fetch_seconds):
            content = await attached.read()
    except DeliveryError as error:
        return str(error)
    except TimeoutError:
        why = f"it did not come within {settings.fetch_seconds:g} seconds"
        return _refused(name, why, "Send it again, or a smaller one.")
    except Exception:
        log.exception("A file could not be fetched")
        return _refused(name, "I could not fetch it", "Attach it to a message again.")
    return await asyncio.to_thread(checked, name, claim, content, settings)


# -- decisions, without waiting ------------------------------------------------------------------


def file_name(name: str) -> str:
    """Return a file's name on one line, without invisible characters."""
    line = " ".join(clean(name[-NAME_READ:]).split())
    if len(line) > NAME_CHARACTERS:
        # The end holds the suffix, which identifies the kind of file.
        line = clean(f"{line[: NAME_CHARACTERS - 21]}…{line[-20:]}")
    return line or "without a name"


def checked(name: str, claim: Claim, content: bytes, settings: FileSettings) -> File | str:
    """Return a file in the stored form, or the sentence about its refusal.

    The content decides, since names and types are unreliable.
    """
    if media_type := image_type(content):
        if len(content) > settings.image_bytes:
            return _too_large(name, len(content), settings)
        return File(name, media_type, content)
    if media_type := document_type(content):
        if len(content) > settings.document_bytes:
            return _too_large(name, len(content), settings)
        return File(name, media_type, content)
    text = text_in(content, claim)
    if text is None:
        return _unreadable(name, claim)
    if len(content) > settings.text_bytes:
        return _too_large(name, len(content), settings)
    text = clean(text)
    if not text.strip():
        return _refused(name, "it is empty", "Was it saved before you sent it?")
    return File(name, "", text.encode())


# -- texts for users -----------------------------------------------------------------------------


def _refused(name: str, why: str, instead: str) -> str:
    return f"The file {name} was not taken: {why}. {instead}"


def _unreadable(name: str, claim: Claim) -> str:
    match claim:
        case Claim.IMAGE:
            why, instead = "it is no image that I can see", "Save it as PNG, JPEG, GIF or WebP."
        case Claim.TEXT:
            why, instead = "I cannot read its text", "Save it as UTF-8."
        case _:
            why = "it is no text, image or document that I can read"
            instead = "Send it as text, PDF, Word, Excel, PowerPoint or ZIP, or as pictures."
    return _refused(name, why, instead)


def _too_large(name: str, size: int, settings: FileSettings) -> str:
    texts, images = _spoken(settings.text_bytes), _spoken(settings.image_bytes)
    why = (
        f"it has {_spoken(size, up=True)}, and I take texts up to {texts}, images up to {images} "
        f"and documents up to {_spoken(settings.document_bytes)}"
    )
    return _refused(name, why, "Send a smaller one, or the part that matters.")


def _spoken(size: int, *, up: bool = False) -> str:
    """Return a size for users; with `up`, a size that is too large never seems to fit."""
    rounded = math.ceil if up else math.floor
    if size >= MEGABYTE:
        return f"{rounded(size * 10 / MEGABYTE) / 10:g} MB"
    return f"{rounded(size / 1_000)} kB"
