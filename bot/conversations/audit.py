"""Keeps the audit log of a bot: seals it, finds entries for admins, and verifies it."""

import json
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.conversations.admin_notices import AdminNotice
from bot.conversations.settings import LEAST_KEY_CHARACTERS, AuditSettings
from bot.errors import BadRequestError, ConfigError
from bot.values import Clock, Json, Live, Place
from db import audit, audit_chain
from db.audit import Filter, StoredEntry
from db.audit_chain import AuditKey, Sealed, Verification
from db.database import Database

log = logging.getLogger(__name__)

KEY_FILE = "audit.key"
UNUSABLE = (
    "The key of the audit log in {file} cannot be used ({error}), so that nothing is sealed. Mend "
    "that, or set `audit.key`."
)
SINCE = "Write a day such as 2026-11-30, or a number of days or hours such as 7d or 12h."
#: Most entries in one file of an export in a chat.
MOST_EXPORTED = 10_000


@dataclass(frozen=True, slots=True)
class AuditKeys:
    """Reads the keys of the audit log: the configured ones, or the one in the data folder.

    Attributes:
        folder: The data folder.
    """

    settings: Live[AuditSettings]
    folder: Path
    _made: list[AuditKey] = field(default_factory=list)

    @property
    def current(self) -> AuditKey:
        """The key that seals; made if there is none yet.

        Raises:
            ConfigError: The file of the key cannot be read or written.
        """
        configured = self.settings().key
        if configured is not None:
            return AuditKey(configured.get_secret_value().encode())
        if not self._made:
            self._made.append(AuditKey(_key_in(self.folder / KEY_FILE)))
        return self._made[0]

    @property
    def exists(self) -> bool:
        """True if a key is configured, or was made before."""
        return self.settings().key is not None or (self.folder / KEY_FILE).exists()

    @property
    def all(self) -> list[AuditKey]:
        """All known keys, the current one first."""
        former = (each.get_secret_value().encode() for each in self.settings().former_keys)
        keys = [self.current, *map(AuditKey, former)]
        file = self.folder / KEY_FILE
        if self.settings().key is not None and file.exists():
            # From the time before a key was configured.
            keys.append(AuditKey(_key_in(file)))
        return keys


def _key_in(file: Path) -> bytes:
    """Return the key in a file, which only the bot's account can read; make it if it is missing.

    Raises:
        ConfigError: The file cannot be read or written, or has no key.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Written under another name first: no other process may find half a key.
        made = file.with_name(f"{file.name}.{os.getpid()}")
        if not file.exists():
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as new:
                new.write(secrets.token_hex(32))
            try:
                os.link(made, file)
            except FileExistsError:
                pass
            finally:
                made.unlink()
        key = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(UNUSABLE.format(file=file, error=error)) from error
    if len(key) < LEAST_KEY_CHARACTERS:
        raise ConfigError(UNUSABLE.format(file=file, error="it holds no key"))
    return key.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLog:
    """The audit log.

    Attributes:
        tell: Notifies the admins.
    """

    database: Database
    keys: AuditKeys
    now: Clock
    tell: Callable[[AdminNotice], Awaitable[None]] | None = None
    _heads: dict[str, str] = field(default_factory=dict)

    async def seal(self) -> None:
        """Seal the entries that wait for it, and log the head of the chain once a day."""
        sealed = Sealed(more=await self.database.read(audit_chain.has_unsealed))
        while sealed.more:
            try:
                key = self.keys.current
            except ConfigError as error:
                today = f"{self.now():%Y-%m-%d}"
                await self._tell(AdminNotice(key=f"audit key {today}", text=str(error)))
                raise
            sealed = await self.database.write(audit_chain.seal, key)
            if other := sealed.other_key:
                now = self.keys.current.id
                log.warning("The audit log was sealed with the key %s, and now with %s", other, now)
                text = (
                    f"The audit log was sealed with another key so far (`{other}`, now `{now}`). "
                    "If you have changed `audit.key`, put the former one into "
                    "`audit.former_keys`. If not, processes have different keys: set `audit.key` "
                    "for all of them."
                )
                await self._tell(AdminNotice(key=f"audit key {other} {now}", text=text))
            if sealed.count:
                today = f"{self.now():%Y-%m-%d}"
                if today not in self._heads:
                    self._heads.clear()
                    self._heads[today] = str(await self.database.read(audit_chain.head))
                    log.info("The head of the audit log is %s", self._heads[today])

    async def _tell(self, notice: AdminNotice) -> None:
        if self.tell is not None:
            await self.tell(notice)

    async def find(self, wanted: Filter, *, limit: int) -> list[StoredEntry]:
        """Return the newest entries that are wanted, newest first."""
        return await self.database.read(audit.newest, wanted, limit=limit)

    def wanted(
        self,
        *,
        user: str = "",
        action: str = "",
        since: datetime | None = None,
        place: Place | None = None,
    ) -> Filter:
        """Return a filter; with the key of a user, also for entries that have only pseudonyms."""
        names = tuple(key.pseudonym(user) for key in self.keys.all) if user else ()
        return Filter(user=user, pseudonyms=names, action=action, since=since, place=place)

    async def verify(self, noted: tuple[int, str] | None = None) -> Verification:
        """Check the whole log; `noted` is the number and hash of a head that was noted."""
        async with self.database.snapshot() as tx:
            return await audit_chain.verify(tx, self.keys.all, noted=noted)


def document(stored: StoredEntry) -> Json:
    """Return an entry as a JSON document."""
    entry = stored.entry
    time = entry.created_at.isoformat()
    common: Json = {"number": stored.number, "time": time, "action": entry.action}
    if stored.erased and not entry.actor:
        names = {"actor": stored.pseudonym, "owner": stored.owner_pseudonym}
        return common | names | {"erased": True}
    place = entry.place
    where = (place.platform, place.workspace, place.channel, place.thread)
    return common | {
        "actor": entry.actor,
        "owner": entry.owner,
        "place": ":".join(where).rstrip(":"),
        "subject": entry.subject,
        "effect": entry.effect,
    }


def json_lines(found: Sequence[StoredEntry]) -> str:
    """Return entries as JSON Lines."""
    return "".join(json.dumps(document(each), ensure_ascii=False) + "\n" for each in found)


def since_of(typed: str, now: datetime) -> datetime | None:
    """Return the time that an admin has typed, UTC; `None` for an empty text.

    Raises:
        BadRequestError: It is no time.
    """
    typed = typed.strip().lower()
    if not typed:
        return None
    number, unit = typed[:-1], typed[-1]
    if number.isdecimal() and len(number) <= 4 and unit in "dh":
        return now - (timedelta(days=int(number)) if unit == "d" else timedelta(hours=int(number)))
    try:
        return datetime.fromisoformat(typed).replace(tzinfo=UTC)
    except ValueError:
        raise BadRequestError(SINCE) from None


def read_head(typed: str) -> tuple[int, str]:
    """Return the number and hash of a head as it is logged.

    Raises:
        BadRequestError: It is malformed.
    """
    number, _, noted = typed.strip().partition(":")
    if not number.isdecimal() or len(noted) != 64:
        raise BadRequestError(
            "A head is a number and 64 letters and digits, as verify prints it: 1234:9f86d081…"
        )
    return int(number), noted


def report(found: Verification) -> str:
    """Return the result of a verification for admins."""
    lines = [f"{found.entries:,} sealed entries checked, {found.unsealed:,} not sealed yet."]
    if found.erased:
        lines.append(
            f"The text of {found.erased:,} was erased (too old, or of deleted users): their "
            "hashes, times, actions and pseudonyms are there."
        )
    if found.unknown:
        lines.append(
            f"{found.unknown:,} cannot be checked: they were sealed with a key that is not here. "
            "Put it into `audit.former_keys`."
        )
    if found.late:
        lines.append(
            f"{found.late:,} give a time more than an hour before that of an entry sealed earlier: "
            "a clock was wrong, or someone who can write to the database added them."
        )
    if found.first_bad is not None:
        lines.append(f"Entry {found.first_bad:,} is not what was sealed: {found.problem}.")
    if found.noted is False:
        lines.append("The noted head is not in the log: entries were removed or replaced.")
    elif found.noted:
        lines.append("The noted head is in the log.")
    if is_sound(found) and found.entries:
        lines.append(f"All is as it was sealed. The head is {found.end}: note it elsewhere.")
    return "\n".join(lines)


def is_sound(found: Verification) -> bool:
    """Return True if nothing is wrong, and everything could be checked."""
    return found.first_bad is None and found.noted is not False and not found.unknown
