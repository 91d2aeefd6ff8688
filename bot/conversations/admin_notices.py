"""Notifies admins, once, of what they must know; buttons carry out commands with their rights."""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bot.agent.plain import plain
from bot.agent.sanitizer import one_line
from bot.conversations.access import (
    AccessSettings,
    account_workspace,
    has_admin_powers,
    is_private,
    is_same_server,
    spelled,
    spelled_place,
)
from bot.errors import BadRequestError
from bot.events import AnnouncementDue, EventBus
from bot.platforms.base import CommandReply, Incoming, Outlet
from bot.subagents.requests import Caller
from bot.values import Clock, Identity, Live, Place, Role, new_sortable_id
from db import admin_notices as stored
from db import outbox, users
from db.admin_notices import StoredNotice
from db.database import Database, Transaction
from db.outbox import NewOutboxEntry, OutboxEntry

log = logging.getLogger(__name__)

#: Begins the ids of notices and of their items in the outbox.
PREFIX = "notice-"
#: Most characters of a notice, so that it is one message on every platform.
LONGEST_TEXT = 1_500
TITLE = "🔔 For admins"
NOT_FOR_YOU = "Only an admin of this place can press that. Nothing was done."
PRESSED = "{name} has pressed “{chosen}” already."
GONE = "That button has expired."
IN_THE_ADMIN_CHANNEL = "The admin channel {channel} could not be written: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminNotice:
    """Something that an admin must know.

    Attributes:
        key: A notice of the same key is sent once; retention forgets it.
        text: One or a few sentences, Markdown.
        place: The place that it is about; `None` for the whole bot.
        buttons: The label of each button, and the command line that it carries out.
    """

    key: str
    text: str
    place: Place | None = None
    buttons: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """The id under which it is stored."""
        return PREFIX + hashlib.sha256(self.key.encode()).hexdigest()[:24]


class CarryOut(Protocol):
    """Carries out a command of a user, durably."""

    async def __call__(
        self,
        incoming: Incoming,
        text: str,
        role: Role,
        *,
        also: Callable[[Transaction], Awaitable[None]],
    ) -> CommandReply | None:
        """Store a command together with `also`, and carry it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminNotices:
    """Stores notices and puts them into the outbox.

    Attributes:
        present: Returns the user at this process's terminal; `None` without one.
    """

    access: Live[AccessSettings]
    outlets: Mapping[str, Outlet]
    database: Database
    events: EventBus
    present: Callable[[], Identity | None]
    now: Clock

    async def announce(self, notice: AdminNotice) -> None:
        """Store a notice in a transaction of its own, and deliver it."""
        async with self.database.transaction() as tx:
            keys = await self.tell(tx, notice)
        self.deliver(keys)

    def deliver(self, keys: list[str]) -> None:
        """Deliver the items of a stored notice at once; otherwise the next sweep does."""
        for key in filter(None, keys):
            self.events.publish(AnnouncementDue(key=key))

    async def tell(self, tx: Transaction, notice: AdminNotice) -> list[str]:
        """Store a notice with its items in the outbox, unless its key is known.

        Returns:
            The keys of the items that this process can deliver after the commit.
        """
        text = plain(notice.text, limit=None).strip()[:LONGEST_TEXT]
        entry = StoredNotice(
            id=notice.id,
            key=notice.key[:255],
            text=text,
            place=notice.place or Place(""),
            buttons=[(one_line(label, 60), line) for label, line in notice.buttons],
        )
        if not await stored.put(tx, entry, self.now()):
            return []
        targets = self._targets(notice.place)
        if not targets:
            log.warning("For admins (`access.admin_channel` is not set): %s", text)
        return [
            each
            for number, (place, user) in enumerate(targets)
            if (each := await self._put(tx, entry, f"{notice.id}-{number}", place, user))
        ]

    def _targets(self, about: Place | None) -> list[tuple[Place, Identity]]:
        """Return the channel of a place or of the whole bot; else the operators."""
        access = self.access()
        channels = access.admin_places
        own = [each for each in channels if about and is_same_server(each, about)]
        # What is written for all readers of a channel has no account.
        found = [
            (each, Identity(each.platform, account_workspace(each.platform, each.workspace), ""))
            for each in own or channels[:1]
        ]
        here = self.present()
        if found and (here is None or found[0][0].platform in self.outlets):
            return found
        # At a terminal beside the bot that serves the channel, its operator reads it as well.
        chosen = [each for each in access.operators if not found or each == here]
        return found + [(Place(each.platform, each.workspace), each) for each in chosen]

    async def _put(
        self, tx: Transaction, notice: StoredNotice, key: str, place: Place, user: Identity
    ) -> str:
        """Put a notice for one channel or operator into the outbox; return its key if due here."""
        known = await users.get(tx, user.key)
        await users.ensure_user(tx, user, known.name if known else user.account, self.now())
        item = NewOutboxEntry(
            key=key, user_id=user.key, place=place, run_id=None, title=TITLE, text=notice.text
        )
        await outbox.put(tx, item, self.now())
        return key if place.platform in self.outlets else ""

    async def blocked(self, tx: Transaction, item: OutboxEntry, error: str) -> list[str]:
        """Notify the operators of a delivery that failed for good; return the keys to deliver."""
        if not item.key.startswith(PREFIX):
            place, day = item.place, self.now().date()
            name = f"`{item.handle}`"
            where = _where(place)
            retry = f"/subagents retry {item.run_id}" if item.run_id else ""
            return await self.tell(
                tx,
                AdminNotice(
                    key=f"blocked {where} {day}",
                    text=f"A result ({name}) could not be delivered in {where}: {error} It is "
                    "kept; further ones there are not reported today.",
                    place=place,
                    buttons=(("Try again", retry),) if retry else (),
                ),
            )
        if item.user.account:
            log.error("The admin %s could not be notified: %s", spelled(item.user), error)
            return []
        where = _where(item.place)
        reason = IN_THE_ADMIN_CHANNEL.format(channel=where, error=error)
        log.error("%s", reason)
        notice = await stored.get(tx, id_of(item.key))
        if notice is None:
            return []
        text = f"{notice.text}\n\n{reason}"
        changed = StoredNotice(id=notice.id, key=notice.key, text=text, place=notice.place)
        return [
            each
            for number, user in enumerate(self.access().operators)
            if (
                each := await self._put(
                    tx, changed, f"{item.key}{number}", Place(user.platform, user.workspace), user
                )
            )
        ]

    async def press(
        self, presser: Caller, notice_id: str, *, choice: str, carry_out: CarryOut
    ) -> CommandReply:
        """Carry out the command of a button for the admin who pressed it; the first press counts.

        A command that fails can be tried again.
        """
        user = presser.user
        async with self.database.snapshot() as tx:
            notice = await stored.get(tx, notice_id)
            known = await users.get(tx, user.key)
        number = int(choice) if choice.isdecimal() else 0
        if notice is None or not 1 <= number <= len(notice.buttons):
            return CommandReply(text=GONE, failed=True, refused=True)
        about = notice.place if notice.place.platform else None
        if not has_admin_powers(presser, about):
            return CommandReply(text=NOT_FOR_YOU, failed=True, refused=True)
        label, line = notice.buttons[number - 1]
        settled = False

        async def settle(tx: Transaction) -> None:
            nonlocal settled
            if not await stored.settle(tx, notice_id, by=user.key, chosen=label):
                current = await stored.get(tx, notice_id)
                by = await users.get(tx, current.user_id) if current else None
                name = one_line(by.name, 60) if by else "Another admin"
                chosen = current.chosen if current else label
                raise BadRequestError(PRESSED.format(name=name, chosen=chosen))
            settled = True

        incoming = Incoming(
            event_id=f"{notice_id}:{new_sortable_id()}",
            user=user,
            user_name=known.name if known else user.account,
            place=presser.place,
            text=line,
        )
        try:
            reply = await carry_out(incoming, line, presser.role, also=settle)
        except BadRequestError as error:
            return CommandReply(text=str(error), failed=True, refused=True)
        except Exception:
            if settled:
                await self.database.write(stored.reopen, notice_id, by=user.key)
            raise
        if reply is None or not reply.failed:
            return reply or CommandReply(text=GONE, failed=True)
        await self.database.write(stored.reopen, notice_id, by=user.key)
        return CommandReply(text=reply.text, failed=True, refused=True)


def id_of(key: str) -> str:
    """Return the id of the notice that an item of the outbox delivers."""
    return key[: len(PREFIX) + 24]


def _where(place: Place) -> str:
    """Return a place as the configuration names it."""
    if is_private(place) and place.platform != "terminal":
        return f"direct messages on {place.platform.capitalize()}"
    return spelled_place(place)
