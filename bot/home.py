"""Finds the folder of the configuration and the data."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.errors import ConfigError

VARIABLE = "RETINUE_HOME"
#: Each of these marks a folder as the home of a bot.
_SIGNS = ("config.yaml", "data/retinue.db")


@dataclass(frozen=True, slots=True)
class Home:
    """The folder to which paths in the configuration are relative.

    Attributes:
        reason: The reason for choosing this folder, for admins.
    """

    path: Path
    reason: str

    def enter(self) -> None:
        """Make this the current folder; create it if it does not exist.

        Raises:
            ConfigError: The folder is unusable.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chdir(self.path)
        except OSError as error:
            raise ConfigError(
                f"The folder {self.path} cannot be used ({error.strerror}): set {VARIABLE} to one "
                "that this account may write."
            ) from None


def find(environ: Mapping[str, str], here: Path, *, named: bool) -> Home:
    """Return the folder of the configuration and the data.

    Args:
        environ: The environment.
        here: The current folder.
        named: Whether a configuration was named by option or variable: paths then start in `here`.
    """
    if given := environ.get(VARIABLE):
        return Home((here / Path(given).expanduser()), f"{VARIABLE} names it")
    if named:
        return Home(here, "the current folder, since a configuration was named")
    for sign in _SIGNS:
        if (here / sign).exists():
            return Home(here, f"the current folder, since it holds {sign}")
    reason = f"no {VARIABLE}, and no {_SIGNS[0]} in the current folder"
    return Home(_data_folder(environ) / "retinue", reason)


def _data_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for data of a user's programs on this platform."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    given = environ.get("XDG_DATA_HOME", "")
    return Path(given) if given.startswith("/") else Path.home() / ".local" / "share"
