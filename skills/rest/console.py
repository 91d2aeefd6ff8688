"""`python -m bot rest`: the commands of the console about REST services."""

from typing import Annotated

import typer

from bot.console import ConfigFile, enter, finish, prepare, say

COMMANDS = typer.Typer(
    name="rest",
    help="Look at the operations of REST services.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

# Commands import their dependencies inside: every start of the program imports this module.


@COMMANDS.command("list")
def show(
    service: Annotated[str, typer.Argument(help="The name of the service.")],
    word: Annotated[str, typer.Argument(help="Only operations that contain it.")] = "",
    config: ConfigFile = None,
) -> None:
    """Show all operations of a service, and why some are left out.

    It reads the document of the service, and makes no other request.
    """
    settings = prepare(enter(config)[0], quiet=True)
    from skills.rest.checkup import listed  # noqa: PLC0415

    say(finish(listed(settings, service, word), settings))
