"""Sends claimed items of the outbox through an outlet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bot.conversations.pause_lines import pause_line
from bot.platforms.base import (
    Announcement,
    Choice,
    Delivered,
    FileMessage,
    NoticeButton,
    OutgoingFile,
    Outlet,
)
from bot.subagents.requests import notify_of
from bot.subagents.wording import shown_name
from bot.values import Stopper
from db.admin_notices import StoredNotice
from db.deliveries import ClaimedEntry
from db.pauses import Pause
from db.users import User

TOGETHER = "✅ {} sub-agents completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """An attempt to deliver items in one message, or the files of a run.

    Attributes:
        files: The files to send; for a run whose text is delivered.
        left: The runs of which files are left to send after the text.
        stopper: The user who stopped another user's run.
        notice: The notice to admins that is delivered.
        paused: The pause in the place.
    """

    items: Sequence[ClaimedEntry]
    files: Sequence[OutgoingFile]
    left: Sequence[str]
    stopper: User | None
    notice: StoredNotice | None
    paused: Pause | None


async def send_texts(attempt: DeliveryAttempt, outlet: Outlet) -> Delivered:
    """Send the texts of items in one message."""
    items, notice, stopper = [*attempt.items], attempt.notice, attempt.stopper
    item, several = items[0], len(items) > 1
    resumable = not several and item.run_status is not None and item.run_status.resumable
    if attempt.paused is not None:
        paused = f"{items[-1].text}\n\n{pause_line(attempt.paused)}"
        items[-1] = replace(items[-1], text=paused)
    together: list[str] = []
    for each in items:
        together += [f"**{each.title}**", each.text, f"_{each.footer}_" if each.footer else ""]
    buttons: tuple[NoticeButton, ...] = ()
    if notice is not None and not notice.user_id:
        # No admin has settled the notice.
        buttons = tuple(
            NoticeButton(notice.id, Choice(str(number), label), line)
            for number, (label, line) in enumerate(notice.buttons, 1)
        )
    return await outlet.announce(
        Announcement(
            key=item.send_key or item.key,
            place=item.place,
            owner=item.user,
            title=TOGETHER.format(len(items)) if several else item.title,
            text="\n\n".join(filter(None, together)) if several else items[0].text,
            footer="" if several else item.footer,
            maybe_repeated=any(each.maybe_repeated for each in items),
            stopped_by=Stopper(stopper.identity, shown_name(stopper)) if stopper else None,
            resumable=item.run_id or "" if resumable else "",
            quiet=_is_quiet(items),
            results=tuple((each.run_id, each.text) for each in items if each.run_id),
            buttons=buttons,
        )
    )


async def send_files(attempt: DeliveryAttempt, outlet: Outlet) -> Delivered:
    """Send the files of the run of an item."""
    item = attempt.items[0]
    return await outlet.send_files(
        FileMessage(
            place=item.place,
            owner=item.user,
            files=attempt.files,
            key=item.key,
            maybe_repeated=item.maybe_repeated,
        )
    )


def _is_quiet(items: Sequence[ClaimedEntry]) -> bool:
    """Return True if the owner of runs needs no ping: by choice, or since the owner is here."""
    of_runs = [(each, each.run_metadata) for each in items if each.run_metadata is not None]
    if not of_runs:
        return False
    silent = all(notify_of(metadata, each.notify) == "silent" for each, metadata in of_runs)
    return silent or any(each.owner_present for each, _ in of_runs)
