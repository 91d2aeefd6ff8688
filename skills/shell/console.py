"""`python -m bot packages`: the commands of the console about Python packages for commands."""

import os
from typing import Annotated

import typer

from bot.console import ConfigFile, enter, prepare, say

COMMANDS = typer.Typer(
    name="packages",
    help="Install the Python packages that the shell tool can import, and show them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

# Commands import their dependencies inside: every start of the program imports this module.


@COMMANDS.command("list")
def show(config: ConfigFile = None) -> None:
    """Show the installed packages, and how they differ from `shell.python_packages`."""
    settings = prepare(enter(config)[0], quiet=True)
    from skills.shell import report  # noqa: PLC0415
    from skills.shell.packages import installed, python_folder  # noqa: PLC0415
    from skills.shell.settings import ShellSettings  # noqa: PLC0415

    shell = settings.section(ShellSettings)
    found = installed(python_folder(shell))
    for name, version in found.versions.items() if found else ():
        say(f"{name}=={version}")
    say(report.packages(shell))


@COMMANDS.command()
def install(
    *,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Take new versions instead of the recorded ones.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Install the packages of `shell.python_packages`, as wheels, from the index of pip.

    May be done while a bot runs: its next command sees them.
    """
    settings = prepare(enter(config)[0], quiet=True)
    from bot.values import utc_now  # noqa: PLC0415
    from skills.shell import installing, report  # noqa: PLC0415
    from skills.shell.host import python_below_usr  # noqa: PLC0415
    from skills.shell.settings import ShellSettings  # noqa: PLC0415

    shell = settings.section(ShellSettings)
    python = python_below_usr()
    installing.install(shell, python, os.environ, now=utc_now(), upgrade=upgrade)
    say(report.packages(shell))
