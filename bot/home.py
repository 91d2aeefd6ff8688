"""The folder that the configuration and the data lie in."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.errors import ConfigError

VARIABLE = "RETINUE_HOME"
#: A folder with one of these is the home of a bot.
_SIGNS = ("config.yaml", "data/retinue.db")


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that relative paths of the configuration begin in.

    Attributes:
        reason: Why it is this folder, for admins.
    """

    path: Path
    reason: str

    def enter(self) -> None:
        """Make this the current folder; it is made if it is not there.

        Raises:
            ConfigError: It cannot be used.
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
    """Return where the configuration and the data lie.

    Args:
        environ: The environment.
        here: The current folder.
        named: A configuration was named by option or variable: its paths begin here.
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
    """Return where this platform keeps the data of a user's programs."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    given = environ.get("XDG_DATA_HOME", "")
    return Path(given) if given.startswith("/") else Path.home() / ".local" / "share"
