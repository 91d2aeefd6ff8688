"""The commands: `python -m bot chat`, `serve`, `worker`, `check`, `migrate`, `doctor`, `mcp`."""

import asyncio
import getpass
import io
import logging
import os
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bot import logs
from bot.config import Config, load, locate, remarks
from bot.errors import BadRequestError, BotError, ConfigError
from bot.reread import Reread
from bot.signals import exit_after

log = logging.getLogger(__name__)

#: After a signal to end, the process is gone within 8 s, whatever happens.
EXIT_SECONDS = 7.5

# What a command needs is imported inside it: the database and the engine take longer to import
# than `check` takes in all.

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="The configuration to use; else $RETINUE_CONFIG, else config.yaml here, if it exists.",
    ),
]


class Commands(TyperGroup):
    """Tells what went wrong in a sentence, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was typed."""
        try:
            return super().invoke(ctx)
        except BotError as error:
            _explain(error)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def chat(
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Who you are; else your name on this computer."),
    ] = None,
    plain: Annotated[
        bool | None,
        typer.Option(
            "--plain/--rich",
            help="Plain lines, or colours and live text; else as it fits.",
        ),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Talk with the bot, here in the terminal.

    It needs no other process: the runs that it starts are worked off here too.
    """
    who = _name(name)
    settings = _prepare(config, quiet=True)
    from bot import app  # noqa: PLC0415

    raise typer.Exit(asyncio.run(app.chat(settings, name=who, plain=plain)))


def serve(config: ConfigFile = None) -> None:
    """Answer on the platforms that are set up.

    Works off turns and runs as well, until it is stopped: Ctrl-C, or SIGTERM.
    """
    settings = _prepare(config)
    from bot import app  # noqa: PLC0415

    file = locate(config, os.environ)
    current = Reread(settings, file, lambda: load(config, os.environ))
    work = app.serve(settings, current=current, asked=partial(exit_after, EXIT_SECONDS))
    raise typer.Exit(_service(work, settings))


def worker(config: ConfigFile = None) -> None:
    """Work off turns and runs beside other processes.

    For several processes or machines that share one PostgreSQL database. Goes on until it is
    stopped: Ctrl-C, or SIGTERM.
    """
    settings = _prepare(config)
    from bot import app  # noqa: PLC0415

    work = app.worker(settings, asked=partial(exit_after, EXIT_SECONDS))
    raise typer.Exit(_service(work, settings))


def check(config: ConfigFile = None) -> None:
    """Check the configuration and say what it means.

    What is on, what is off, and why; what is wrong with agents and skills. Fails with every
    mistake and its line if it cannot be used.
    """
    settings = _load(config)
    from bot import inventory, report  # noqa: PLC0415

    found = inventory.take(settings)
    file, unwise = locate(config, os.environ), remarks(config, os.environ)
    _say(report.report(settings, file, os.environ, found, unwise))


def migrate(config: ConfigFile = None) -> None:
    """Bring the database to this version's tables.

    All or nothing; it may be repeated, and nothing happens when the tables are in place.
    """
    database = _prepare(config, quiet=True).database
    from db.tables import SCHEMA_VERSION  # noqa: PLC0415
    from migrations import run  # noqa: PLC0415

    asyncio.run(run.upgrade(database.url))
    _say(f"{database.shown} has the tables of this version, {SCHEMA_VERSION}.")


def doctor(
    *,
    config: ConfigFile = None,
    online: Annotated[
        bool, typer.Option("--online", help="Also ask the model a question (costs a few tokens).")
    ] = False,
) -> None:
    """Look at everything that the bot needs.

    One line each: what works (✓), what does not (✗), and what is off (–). Fails at a ✗.
    """
    settings = _prepare(config, quiet=True)
    from bot import doctor as examination  # noqa: PLC0415

    findings = asyncio.run(examination.examine(settings, online=online))
    for finding in findings:
        _say(str(finding))
    raise typer.Exit(any(finding.bad for finding in findings))


def mcp_list(config: ConfigFile = None) -> None:
    """Show the MCP servers, their tools, and what waits for an approval.

    Of a tool that changed, it shows what was approved (-) and what is offered now (+).
    """
    settings = _prepare(config, quiet=True)
    from bot import mcp_console  # noqa: PLC0415

    _say(asyncio.run(mcp_console.listed(settings)))


def mcp_approve(
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
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Who you are; else your name on this computer."),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Let tools be used that changed or came later.

    May be done while a bot runs: it uses them within a few seconds.
    """
    who = _name(name)
    settings = _prepare(config, quiet=True)
    from bot import mcp_console  # noqa: PLC0415

    approving = mcp_console.approve(
        settings, server, tuple(tools or ()), everything=everything, name=who
    )
    _say(asyncio.run(approving))


def config_docs() -> None:
    """Write config.example.yaml and docs/config.schema.json anew."""
    from bot import example  # noqa: PLC0415

    for file in example.write(Path()):
        _say(f"{file} is written.")


def build() -> typer.Typer:
    """Return the command line."""
    app = typer.Typer(
        cls=Commands,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help="Retinue: a chat bot whose main agent hands work to subagents.",
        epilog="Start with `python -m bot chat`: it needs no key and no configuration.",
    )
    for command in (chat, serve, worker, check, migrate, doctor):
        app.command()(command)
    app.command(hidden=True)(config_docs)
    mcp = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    mcp.command("list")(mcp_list)
    mcp.command("approve")(mcp_approve)
    app.add_typer(mcp, name="mcp", help="Look at the tools of MCP servers, and approve changes.")
    return app


def main() -> None:
    """Run the command that was typed."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that knows no ✓ shows a question mark instead of breaking off.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    build()(prog_name="python -m bot")


def _load(file: Path | None) -> Config:
    config = load(file, os.environ)
    logs.keep_secret(config.secrets)
    return config


def _prepare(file: Path | None, *, quiet: bool = False) -> Config:
    """Load the configuration and begin the log.

    Args:
        file: The file to load.
        quiet: Keep what is no warning off the terminal, where a person reads something else.
    """
    config = _load(file)
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


def _service(work: Coroutine[None, None, None], settings: Config) -> int:
    """Run a process that serves; return 2 where only a change of the configuration would help."""
    try:
        asyncio.run(work)
    except ConfigError as error:
        _explain(error)
        if settings.logging.file:
            log.error("%s", error)
        return 2
    return 0


def _explain(error: BotError) -> None:
    typer.echo(logs.without_secrets(str(error)), err=True)


def _name(given: str | None) -> str:
    try:
        name = (getpass.getuser() if given is None else given).strip()
    except (OSError, KeyError):
        raise BadRequestError("This computer has no name for you: give one with --as.") from None
    if not name.isprintable() or not 1 <= len(name) <= 64:
        raise BadRequestError("A name has 1 to 64 printable characters: --as alice")
    return name


def _say(text: str) -> None:
    typer.echo(logs.without_secrets(text))


if __name__ == "__main__":
    main()
