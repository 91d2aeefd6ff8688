"""Reloads the configuration, for keys that may change while the bot runs."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from bot import masking
from bot.config.model import Config
from bot.errors import ConfigError

log = logging.getLogger(__name__)

#: Longest age in seconds of a returned configuration; a value removed from the file is void then.
LOOK_SECONDS = 0.5

_Version = tuple[int, int, int] | None


class ConfigReloader:
    """Reloads a file when it has changed; an invalid file changes nothing.

    Args:
        config: The configuration loaded at the start.
        file: The loaded file; `None` if there is none.
        load: Loads the file again. Raises `ConfigError`.
        monotonic: A monotonic clock, in seconds.
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
        """Return the newest valid configuration."""
        if self._file is None or self._now() - self._looked < LOOK_SECONDS:
            return self._config
        self._looked = self._now()
        version = self._stamp()
        if version is None or version == self._version:
            return self._config
        self._version = version
        try:
            self._config = self._load()
        except ConfigError as error:
            log.error("%s has changed and is not used: %s", self._file, error)
            return self._config
        masking.keep_secret(self._config.secrets)
        log.info(
            "%s has changed: the signing secret of Slack counts at once, all else at the next "
            "start",
            self._file,
        )
        return self._config

    def _stamp(self) -> _Version:
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
