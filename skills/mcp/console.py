"""`python -m bot mcp`: the commands of the console about tools that wait for an approval."""

from typing import Annotated

import typer

from bot.console import ConfigFile, Name, enter, finish, name_of, prepare, say

COMMANDS = typer.Typer(
    name="mcp",
    help="Look at the tools of MCP servers, and approve changes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

# Commands import their dependencies inside: every start of the program imports this module.


@COMMANDS.command("list")
def show(config: ConfigFile = None) -> None:
    """Show the MCP servers, their tools, and what waits for an approval.

    Of a tool that changed, it shows what was approved (-) and what is offered now (+).
    """
    settings = prepare(enter(config)[0], quiet=True)
    from skills.mcp import approvals  # noqa: PLC0415

    say(finish(approvals.listed(settings), settings))


@COMMANDS.command()
def start(
    server: Annotated[str, typer.Argument(help="The name of a server of `mcp.files`.")],
    *,
    name: Name = None,
    config: ConfigFile = None,
) -> None:
    """Let a server of a file be started, so that its tools can be seen.

    None of its tools is used before `approve`.
    """
    who = name_of(name)
    settings = prepare(enter(config)[0], quiet=True)
    from skills.mcp import approvals  # noqa: PLC0415

    say(finish(approvals.start(settings, server, name=who), settings))


@COMMANDS.command()
def approve(
    server: Annotated[str, typer.Argument(help="The name of the server.")],
    tools: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOOL]...",
            help="As `list` shows them; with the @ mark, only if it has not changed since.",
        ),
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Whatever waits.")] = False,
    name: Name = None,
    config: ConfigFile = None,
) -> None:
    """Let tools be used that changed or came later.

    May be done while a bot runs: it uses them within a few seconds.
    """
    who = name_of(name)
    settings = prepare(enter(config)[0], quiet=True)
    from skills.mcp import approvals  # noqa: PLC0415

    work = approvals.approve(settings, server, tools or (), everything=everything, name=who)
    say(finish(work, settings))
