"""`python -m bot backup` and `restore`: all data of a bot in one file, and back."""

from pathlib import Path
from typing import Annotated

import typer

from bot.console import ConfigFile, enter, finish, prepare, say
from bot.run_texts import counted


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file: retinue.tar.gz.")],
    config: ConfigFile = None,
) -> None:
    """Write all data of the bot to FILE: the database, workspaces, skills' data, the audit key.

    May be done while a bot runs. FILE is as secret as the bot: it holds all that users wrote.
    PostgreSQL needs `pg_dump` of the server's version or newer.
    """
    absolute = file.absolute()
    settings = prepare(enter(config)[0], quiet=True)
    from bot import backup as backups  # noqa: PLC0415
    from bot.values import utc_now  # noqa: PLC0415

    found = finish(backups.back_up(settings, absolute, utc_now()), settings)
    left = (
        f" Left out, as links, special files, or not readable for this account: {found.skipped}."
        if found.skipped
        else ""
    )
    say(f"{absolute} holds the database and {counted(found.files, 'file')}.{left}")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `backup` wrote.")],
    config: ConfigFile = None,
) -> None:
    """Put the data of FILE into the empty places of this configuration.

    Nothing is overwritten. The bot that starts then continues what was under way. Never let it run
    beside the bot that was backed up: both would continue the same work.
    """
    absolute = file.absolute()
    settings = prepare(enter(config)[0], quiet=True)
    from bot import backup as backups  # noqa: PLC0415

    found = finish(backups.restore(settings, absolute), settings)
    say(f"Restored: {settings.database.shown} and {counted(found.files, 'file')}. Start the bot.")
