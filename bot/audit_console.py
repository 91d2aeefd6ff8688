"""`python -m bot audit`: prints the audit log as JSON Lines, or verifies it."""

from typing import Annotated

import typer

from bot.console import ConfigFile, enter, finish, prepare, say


def audit(
    *,
    user: Annotated[
        str, typer.Option(metavar="ACCOUNT", help="Who did it, or whose it was: discord:1234.")
    ] = "",
    action: Annotated[str, typer.Option(help="What was done, such as spawn, stop or raise.")] = "",
    since: Annotated[
        str, typer.Option(metavar="DAY", help="Since when: 2026-11-30, or 7d, or 12h.")
    ] = "",
    most: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 1_000_000,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the whole log; exit 1 if something is wrong.")
    ] = False,
    head: Annotated[
        str, typer.Option(metavar="HEAD", help="With --verify: a head that was noted before.")
    ] = "",
    config: ConfigFile = None,
) -> None:
    """Print the audit log as JSON Lines, or verify it.

    May be done while a bot runs.
    """
    settings = prepare(enter(config)[0], quiet=True)
    from bot import audit_reports  # noqa: PLC0415

    if verify or head:
        text, sound = finish(audit_reports.verify(settings, head=head), settings)
        say(text)
        raise typer.Exit(0 if sound else 1)
    found = audit_reports.entries(settings, account=user, action=action, since=since, most=most)
    say(finish(found, settings).rstrip("\n"))
