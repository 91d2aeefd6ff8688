"""The commands of the console about what is stored of an account, some under two names."""

from pathlib import Path
from typing import Annotated

import typer

from bot.console import ConfigFile, Name, enter, finish, name_of, prepare, say

COMMANDS = typer.Typer(
    name="user",
    help="Export or delete what is stored about an account.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Account = Annotated[
    str, typer.Argument(help="Such as discord:1234, slack:T012345:U012345, terminal:alice.")
]

# Commands import their dependencies inside: every start of the program imports this module.


def export_user(
    account: Account,
    file: Annotated[Path, typer.Argument(help="The ZIP file, which must not exist.")],
    name: Name = None,
    config: ConfigFile = None,
) -> None:
    """Write all that is stored about an account into a ZIP file.

    Also about one that never talked to the bot, and whose words were read in a thread. It is
    recorded in the audit log. May be done while a bot runs.
    """
    who, target = name_of(name), file.absolute()
    settings = prepare(enter(config)[0], quiet=True)
    from bot import accounts  # noqa: PLC0415

    say(finish(accounts.export(settings, account, target, name=who), settings))


def delete_user(
    account: Account,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Delete; else only show what.")] = False,
    name: Name = None,
    config: ConfigFile = None,
) -> None:
    """Delete all that is stored about an account.

    Its work is stopped first. It is recorded in the audit log, which stays. Ends with what remains
    elsewhere, and why. Refused under a legal hold. May be done while a bot runs.
    """
    who = name_of(name)
    settings = prepare(enter(config)[0], quiet=True)
    from bot import accounts  # noqa: PLC0415

    say(finish(accounts.delete(settings, account, yes=yes, name=who), settings))


def hold(
    account: Annotated[
        str, typer.Argument(help="Such as discord:1234; leave it out to see all holds.")
    ] = "",
    *,
    title: Annotated[
        str, typer.Option("--name", metavar="CASE", help="The name of the case.")
    ] = "",
    release: Annotated[bool, typer.Option("--release", help="Release the hold.")] = False,
    name: Name = None,
    config: ConfigFile = None,
) -> None:
    """Place, list or release legal holds on accounts.

    With --name it is placed, with --release released, else listed. While it is in force, deletion
    of the account is refused, retention spares it, and what its user edits or deletes on the
    platform is kept apart. It is recorded in the audit log. May be done while a bot runs.
    """
    who = name_of(name)
    settings = prepare(enter(config)[0], quiet=True)
    from bot import accounts  # noqa: PLC0415

    if release:
        work = accounts.release(settings, account, title=title, name=who)
    elif title:
        work = accounts.hold(settings, account, title=title, name=who)
    else:
        work = accounts.list_holds(settings, account)
    say(finish(work, settings))


COMMANDS.command("export")(export_user)
COMMANDS.command("delete")(delete_user)
