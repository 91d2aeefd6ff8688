"""Shared functions of the commands: folder, configuration, log, and output."""

import asyncio
import getpass
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from bot import logs, masking
from bot.config.loading import DEFAULT_FILE, FILE_VARIABLE, locate
from bot.config.loading import load as config_of
from bot.config.model import Config
from bot.config.reloading import ConfigWatch
from bot.errors import BadRequestError, BotError, ConfigError

log = logging.getLogger(__name__)

Result = TypeVar("Result")

#: Options that several commands take.
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="The configuration to use; else $RETINUE_CONFIG, else config.yaml here, if it exists.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="Who you are; else your name on this computer."),
]

#: The program's name in texts.
FROM_SOURCE = "python -m bot"

HOME_VARIABLE = "RETINUE_HOME"
#: Variables of the environment, beside the configuration: those that are set already win.
ENV_FILE = "retinue.env"
#: Each of these marks a folder as the home of a bot.
_HOME_SIGNS = ("config.yaml", "data/retinue.db")


@dataclass(frozen=True, slots=True)
class Home:
    """The folder to which paths in the configuration are relative.

    Attributes:
        reason: The reason for choosing this folder, for admins.
    """

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"

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
                f"The folder {self.path} cannot be used ({error.strerror}): set {HOME_VARIABLE} to "
                "one that this account may write."
            ) from None


def find_home(environ: Mapping[str, str], here: Path, *, named: bool) -> Home:
    """Return the folder of the configuration and the data.

    Args:
        environ: The environment.
        here: The current folder.
        named: Whether a configuration was named by option or variable: paths then start in `here`.
    """
    if given := environ.get(HOME_VARIABLE):
        return Home((here / Path(given).expanduser()), f"{HOME_VARIABLE} names it")
    if named:
        return Home(here, "the current folder, since a configuration was named")
    for sign in _HOME_SIGNS:
        if (here / sign).exists():
            return Home(here, f"the current folder, since it holds {sign}")
    # The folder for data of a user's programs on this platform.
    data, given = Path.home() / ".local" / "share", environ.get("XDG_DATA_HOME", "")
    if sys.platform == "darwin":
        data = Path.home() / "Library" / "Application Support"
    elif given.startswith("/"):
        data = Path(given)
    return Home(
        data / "retinue", f"no {HOME_VARIABLE}, and no {_HOME_SIGNS[0]} in the current folder"
    )


def program() -> str:
    """Return the command that started this program, for texts that name a command."""
    return "retinue" if Path(sys.argv[0]).stem == "retinue" else FROM_SOURCE


def enter(file: Path | None) -> tuple[Path | None, Home]:
    """Change to the folder of the configuration and the data.

    Returns:
        The file to load, and the folder.
    """
    here = Path.cwd()
    named = file is not None or bool(os.environ.get(FILE_VARIABLE))
    found = find_home(os.environ, here, named=named)
    if found.path != here:
        named_file = locate(file, os.environ) if named else None
        # Relative paths start in another folder from now on.
        file = named_file.absolute() if named_file else None
        found.enter()
    located = locate(file, os.environ)
    beside = located.parent if located else Path()
    for name, value in read_variables(beside / ENV_FILE).items():
        os.environ.setdefault(name, value)
    return located, found


def read_variables(file: Path) -> dict[str, str]:
    """Return the variables in a file with a line `NAME=value` for each; none without the file.

    Raises:
        ConfigError: The file cannot be read.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read ({error}): mend it, or move it away.") from None
    pairs = (line.strip().partition("=") for line in lines if not line.lstrip().startswith("#"))
    found = {name.strip(): value.strip() for name, sign, value in pairs if sign}
    # Quotes as systemd and Docker write them.
    quoted = {name for name, value in found.items() if len(value) > 1 and value[0] in "\"'"}
    return {
        name: value[1:-1] if name in quoted and value[-1] == value[0] else value
        for name, value in found.items()
    }


def load(file: Path | None) -> Config:
    """Load the configuration, and register its secrets for masking in the log."""
    config = config_of(file, os.environ)
    masking.keep_secret(config.secrets)
    return config


def prepare(file: Path | None, *, quiet: bool = False) -> Config:
    """Load the configuration and set up the log.

    Args:
        file: The file to load.
        quiet: Log only warnings and errors to a terminal where the user reads other output.
    """
    config = load(file)
    settings = config.logging
    level = settings.level
    if quiet and settings.file is None and level in {"debug", "info"}:
        level = "warning"
    try:
        logs.set_up(level=level, form=settings.form, file=settings.file)
    except OSError as error:
        raise ConfigError(
            f"logging.file: {settings.file} cannot be written ({error.strerror}); name a file in a "
            "folder that exists."
        ) from None
    return config


def watch(config: Config, file: Path | None) -> ConfigWatch:
    """Return the watch of the configuration's file, or of the file that may come to be here."""
    watched = file or Path(DEFAULT_FILE)
    return ConfigWatch(config, watched, lambda: config_of(watched, os.environ))


def finish(
    work: Coroutine[Any, Any, Result],
    settings: Config,
    run: Callable[[Coroutine[Any, Any, Result]], Result] = asyncio.run,
) -> Result:
    """Run the work of a command, on the event loop that `run` makes.

    Raises:
        ConfigError: The database is unusable; the text gives the reason and the next step.
    """
    try:
        return run(work)
    except Exception as error:
        from db.diagnosis import diagnosis  # noqa: PLC0415 - costs more than `check` in all

        reason = diagnosis(error, settings.database)
        if reason is None:
            raise
        log.debug("The database cannot be used", exc_info=error)
        raise ConfigError(f"{settings.database.shown} cannot be used: {reason}") from None


def explain(error: BotError) -> None:
    """Write an error to standard error."""
    typer.echo(worded(str(error)), err=True)


def name_of(given: str | None) -> str:
    """Return the given name, or else the name of the account.

    Raises:
        BadRequestError: The name is missing or invalid.
    """
    try:
        name = (getpass.getuser() if given is None else given).strip()
    except (OSError, KeyError):
        raise BadRequestError("This computer has no name for you: give one with --as.") from None
    if not name.isprintable() or not 1 <= len(name) <= 64:
        raise BadRequestError("A name has 1 to 64 printable characters: --as alice")
    return name


def say(text: str) -> None:
    """Write a text to standard output."""
    typer.echo(worded(text))


def worded(text: str) -> str:
    """Return a text with secrets masked and with commands in the form that started this program."""
    return masking.without_secrets(text).replace(FROM_SOURCE, program())
