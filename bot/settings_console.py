"""`python -m bot settings`: what applies to a user in a place, and the source of each value."""

from typing import Annotated

import typer

from bot.console import ConfigFile, enter, prepare, say

PlaceName = Annotated[
    str,
    typer.Option(
        "--place",
        metavar="PLACE",
        help="Such as discord:SERVER:CHANNEL, slack:WORKSPACE:CHANNEL, discord: or terminal:.",
    ),
]
Account = Annotated[
    str,
    typer.Option("--user", metavar="ACCOUNT", help="Such as discord:1234, slack:T012345:U012345."),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="GROUP",
        help="A role or user group of the user, such as discord-role:SERVER:ROLE; repeat it for "
        "others. The platform is not asked.",
    ),
]


def settings(
    place: PlaceName, user: Account, group: Groups = None, config: ConfigFile = None
) -> None:
    """Show what applies to a user in a place, and where each value comes from."""
    file, _ = enter(config)
    loaded = prepare(file, quiet=True)
    from bot import settings_shown  # noqa: PLC0415

    say(settings_shown.shown(loaded, file, place=place, account=user, groups=group or ()))
