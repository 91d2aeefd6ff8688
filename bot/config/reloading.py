"""Watches `config.yaml`: a changed file replaces the configuration in force as a whole.

Parts read their settings from the configuration in force at each use.
"""

import asyncio
import hashlib
import logging
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bot import masking
from bot.config.differences import KeyChange, differences, in_force
from bot.config.document import MAX_BYTES
from bot.config.model import Config
from bot.errors import ConfigError
from bot.platforms.catalog import PLATFORMS
from bot.values import Live, Section

log = logging.getLogger(__name__)

#: Seconds between two looks at the file. A change counts when two looks have found the same, so
#: that a value removed from the file is void within a second.
LOOK_SECONDS = 0.4

#: The mistake of a file that had keys and has none: it was emptied by accident, by a full disk for
#: instance, or is being written.
EMPTIED = (
    "{file} cannot be used:\n"
    "  it has no keys any more. To use the defaults of all keys, write `{{}}` into it."
)
UNREADABLE = "{file} cannot be used:\n  an unexpected error: {error}."
#: Most keys that one report names.
MOST_CHANGES = 15

#: Time of the last change, size and inode of a file, links followed; `None` without a file.
_Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """A changed file.

    Attributes:
        file: The path of the file.
        content: The hash of its content; empty if it cannot be read.
        error: The reason why it is not used, with every mistake and its line; empty if it is used.
        changes: The keys whose values have changed.
    """

    file: Path
    content: str
    error: str = ""
    changes: tuple[KeyChange, ...] = ()

    @property
    def text(self) -> str:
        """The report for admins, Markdown."""
        if self.error:
            mistakes = self.error.replace("\n  ", "\n- ")
            return (
                f"{mistakes}\n\nThe configuration from before stays in force. Mend the file: it "
                "is read again when it changes."
            )
        if not self.changes:
            return f"{self.file} is valid again; the configuration in force is the same."
        lines = [f"{self.file} has changed, and counts from now on:"]
        lines += [f"- {each}" for each in self.changes[:MOST_CHANGES]]
        if (more := len(self.changes) - MOST_CHANGES) > 0:
            lines.append(f"- and {more} more, which the log names")
        if any(each.restart for each in self.changes):
            lines.append("\nRestart every process of the bot for what needs it.")
        return "\n".join(lines)


class ConfigWatch:
    """Holds the configuration in force, and replaces it when its file has changed.

    Keys that need a restart keep the values from the start.

    The file may be replaced, written in place, or reached by links that change, as those of a
    mounted ConfigMap do. An invalid file changes nothing.

    Args:
        config: The configuration loaded at the start.
        file: The file; `None` for none.
        load: Loads the file. Raises `ConfigError`.
    """

    def __init__(self, config: Config, file: Path | None, load: Callable[[], Config]) -> None:
        self._config = self._loaded = config
        # Links are resolved at each look, the current folder is not.
        self._file = file.absolute() if file else None
        self._load = load
        self._read = self._seen = self._stamp()
        raw = self._bytes()
        self._content, self._blank = _hash(raw), _is_blank(raw)
        self._valid = True

    def __call__(self) -> Config:
        """Return the configuration in force."""
        return self._config

    @property
    def file(self) -> Path | None:
        """The file; `None` for none."""
        return self._file

    @property
    def is_valid(self) -> bool:
        """True if the file could be used when it was last read."""
        return self._valid

    async def run(self, report: Callable[[Reload], Awaitable[None]]) -> None:
        """Look at the file again and again, until cancelled; report each change.

        An error while a change is followed is logged: later changes are still seen.
        """
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if (reload := await self.look()) is not None:
                    await report(reload)
            except Exception:
                log.exception("A change of %s could not be followed as a whole", self._file)

    async def look(self) -> Reload | None:
        """Look at the file; read it if it has changed and the look before has found the same.

        Returns:
            The change; `None` for none, and for a content that was read before.
        """
        if self._file is None:
            return None
        found = await asyncio.to_thread(self._stamp)
        settled, self._seen = found == self._seen, found
        if found == self._read or not settled:
            return None
        content, loaded = await asyncio.to_thread(self._read_again)
        if await asyncio.to_thread(self._stamp) != found:
            # It was written meanwhile.
            return None
        self._read = found
        if content == self._content:
            return None
        self._content = content
        if isinstance(loaded, ConfigError):
            self._valid = False
            reload = Reload(file=self._file, content=content, error=str(loaded))
            log.error("%s", reload.text)
            return reload
        # Before anything that uses the new values can write to the log.
        masking.keep_secret(loaded.secrets)
        changes, was_valid = differences(self._loaded, loaded), self._valid
        self._config, self._loaded = in_force(self._config, loaded), loaded
        self._valid = True
        if was_valid and not changes:
            return None
        for change in changes:
            log.info("%s has changed: %s", self._file, change)
        return Reload(file=self._file, content=content, changes=changes)

    def _read_again(self) -> tuple[str, Config | ConfigError]:
        raw = self._bytes()
        content, blank = _hash(raw), _is_blank(raw)
        try:
            loaded = self._load()
        except ConfigError as error:
            return content, error
        except Exception as error:  # noqa: BLE001 - it is reported to the admins
            # Its text may have a secret of the file, which is not masked yet.
            at = traceback.extract_tb(error.__traceback__)[-1]
            found = f"{type(error).__name__}, at {at.filename}:{at.lineno}"
            return content, ConfigError(UNREADABLE.format(file=self._file, error=found))
        if blank and not self._blank:
            return content, ConfigError(EMPTIED.format(file=self._file))
        self._blank = blank
        return content, loaded

    def _stamp(self) -> _Stamp:
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _bytes(self) -> bytes | None:
        if self._file is None:
            return None
        try:
            with self._file.open("rb") as opened:
                return opened.read(MAX_BYTES + 1)
        except OSError:
            return None


def _hash(raw: bytes | None) -> str:
    """Return the hash of the content of a file; empty for none."""
    return "" if raw is None else hashlib.sha256(raw).hexdigest()


def _is_blank(raw: bytes | None) -> bool:
    """Return True if a file has nothing but comments."""
    lines = (raw or b"").removeprefix(b"\xef\xbb\xbf").splitlines()
    texts = map(bytes.strip, lines)
    return all(not text or text.startswith((b"#", b"---", b"...")) for text in texts)


class LiveConfig:
    """The sections of the configuration in force, now (`section`) and at each use (`live`).

    Args:
        current: Returns the configuration in force; a `Config` returns itself.
    """

    def __init__(self, current: Live[Config]) -> None:
        self._current = current

    def __call__(self) -> Config:
        """Return the configuration in force."""
        return self._current()

    def section(self, kind: type[Section]) -> Section:
        """Return the section of this class, as it is now."""
        return self._current().section(kind)

    @property
    def file(self) -> Path | None:
        """The watched file; `None` for none."""
        found: Path | None = getattr(self._current, "file", None)
        return found if found is not None and found.exists() else None

    @property
    def is_of_file(self) -> bool:
        """False while the watched file has a mistake: a former content is in force."""
        return bool(getattr(self._current, "is_valid", True))

    def direct_messages(self, platform: str) -> str:
        """Return the setting `direct_messages` of a platform."""
        config = self._current()
        found = (config.section(kind) for kind in PLATFORMS if kind.section == platform)
        return next((str(getattr(each, "direct_messages", "")) for each in found), "") or "members"

    def live(self, kind: type[Section]) -> Live[Section]:
        """Return a function that returns the section of this class at each call."""
        held, found = self._current(), self._current().section(kind)

        def section() -> Section:
            nonlocal held, found
            if (current := self._current()) is not held:
                held, found = current, current.section(kind)
            return found

        return section
