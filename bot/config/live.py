"""The configuration in force: parts read their settings from it at each use."""

from pathlib import Path

from bot.config.model import Config
from bot.platforms.catalog import PLATFORMS
from bot.values import Live, Section


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
