"""The configuration as its file says now, for what may change while the bot runs."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from bot import logs
from bot.config import Config
from bot.errors import ConfigError

log = logging.getLogger(__name__)

#: How old an answer may be: what was taken out of the file counts no more after that.
LOOK_SECONDS = 0.5

_Version = tuple[int, int, int] | None


class Reread:
    """Reads a file again when it has changed; one that cannot be used changes nothing.

    Args:
        config: What was loaded at the start.
        file: Where from; `None` when there is none.
        load: Loads it again. Raises `ConfigError`.
        monotonic: A clock in seconds that never goes back.
    """

    def __init__(
        self,
        config: Config,
        file: Path | None,
        load: Callable[[], Config],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._file = file
        self._load = load
        self._now = monotonic
        self._looked = monotonic()
        self._version = self._stamp()

    def __call__(self) -> Config:
        """Return the newest configuration that can be used."""
        if self._file is not None and self._now() - self._looked >= LOOK_SECONDS:
            self._looked = self._now()
            self._look()
        return self._config

    def _look(self) -> None:
        version = self._stamp()
        if version is None or version == self._version:
            return
        self._version = version
        try:
            self._config = self._load()
        except ConfigError as error:
            log.error("%s has changed and is not used: %s", self._file, error)
            return
        logs.keep_secret(self._config.secrets)
        log.info(
            "%s has changed: the signing secret of Slack counts at once, all else at the next "
            "start",
            self._file,
        )

    def _stamp(self) -> _Version:
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
