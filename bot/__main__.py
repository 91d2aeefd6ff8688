"""The commands: `retinue chat`, `ask`, `serve`, `worker`, `check`, `migrate`, `doctor`."""

import asyncio
import gc
import io
import logging
import os
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from bot import accounts_console, backup_console, loop_watch
from bot.audit_console import audit
from bot.config.model import Config
from bot.console import (
    ConfigFile,
    Name,
    enter,
    explain,
    finish,
    load,
    name_of,
    prepare,
    program,
    say,
    watch,
)
from bot.errors import BadRequestError, BotError, ConfigError
from bot.settings_console import settings
from bot.setup_console import setup
from bot.signals import exit_after
from skills import discovery

log = logging.getLogger(__name__)

#: Seconds from a signal to end until the process is ended by force; it must be gone within 8 s.
EXIT_SECONDS = 7.5

NO_WINDOWS = (
    "Retinue does not run on Windows itself: install it in WSL (`wsl --install`), where it runs as "
    "on Linux."
)

# Commands import their dependencies inside: the import of database and engine takes longer than a
# whole `check`.

#: Most characters that are read from a pipe.
MAX_PIPED = 1_000_000


class ConsoleCommands(TyperGroup):
    """Reports errors as a sentence, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the typed command."""
        try:
            return super().invoke(ctx)
        except BotError as error:
            explain(error)
            raise typer.Exit(1) from None
        except OSError as error:
            # An error without a file name has no remedy here; the command line handles a closed
            # pipe.
            if error.filename is None:
                raise
            log.debug("A file cannot be used", exc_info=error)
            explain(ConfigError(f"{os.fsdecode(error.filename)} cannot be used: {error.strerror}."))
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def chat(
    name: Name = None,
    plain: Annotated[
        bool | None,
        typer.Option(
            "--plain/--rich",
            help="Plain lines, each a message; or colours and live text; else as it fits.",
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option("--message", "-m", metavar="TEXT", help="Ask this and end, like `ask`."),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Talk with the bot, here in the terminal.

    It needs no other process: the runs that it starts are worked off here too. What is piped in is
    one message, as for `ask`.
    """
    who = name_of(name)
    file, _ = enter(config)
    settings = prepare(file, quiet=True)
    if message is not None or (plain is None and _is_piped()):
        text = _question(message or "")
        if message is None and not text:
            return
        _ask(settings, text, who)
    work = _processes().chat(watch(settings, file), name=who, plain=plain)
    raise typer.Exit(finish(work, settings, loop_watch.run))


def ask(
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="The message.")] = None,
    agent: Annotated[
        str, typer.Option("--agent", metavar="NAME", help="Let this agent do it, as a run.")
    ] = "",
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object: answer, runs, failed.")
    ] = False,
    name: Name = None,
    config: ConfigFile = None,
) -> None:
    """Ask one thing, write the answer, and end.

    What is piped in follows TEXT: git diff | retinue ask "Review this". The runs that it starts are
    waited for. The answer goes to standard output, all else to standard error. Exit code: 0 when
    it was answered, 1 when it failed, 2 for a wrong command line.
    """
    who = name_of(name)
    settings = prepare(enter(config)[0], quiet=True)
    _ask(settings, _question(" ".join(text or ())), who, agent=agent, as_json=as_json)


def serve(config: ConfigFile = None) -> None:
    """Answer on the platforms that are set up.

    Works off turns and runs as well, until it is stopped: Ctrl-C, or SIGTERM.
    """
    file, _ = enter(config)
    settings = prepare(file)
    work = _processes().serve(watch(settings, file), on_stop=partial(exit_after, EXIT_SECONDS))
    raise typer.Exit(_service(work, settings))


def worker(config: ConfigFile = None) -> None:
    """Work off turns and runs beside other processes.

    For several processes or machines that share one PostgreSQL database. Runs until it is
    stopped: Ctrl-C, or SIGTERM.
    """
    file, _ = enter(config)
    settings = prepare(file)
    on_stop = partial(exit_after, EXIT_SECONDS)
    work = _processes().serve(watch(settings, file), receives=False, on_stop=on_stop)
    raise typer.Exit(_service(work, settings))


def check(config: ConfigFile = None) -> None:
    """Check the configuration and say what it means.

    What is on, what is off, and why; what is wrong with agents and skills. Fails with every
    mistake and its line if it cannot be used.
    """
    file, where = enter(config)
    settings = load(file)
    from bot import inventory, report  # noqa: PLC0415
    from bot.cautions import cautions  # noqa: PLC0415
    from migrations.version import version_of_file, version_problem  # noqa: PLC0415

    found = inventory.take(settings)
    unwise = cautions(settings, file, os.environ)
    if settings.database.is_sqlite:
        version = version_of_file(settings.database)
    else:
        from migrations.run import version_of_server  # noqa: PLC0415

        version = asyncio.run(version_of_server(settings.database))
    if problem := version_problem(version):
        unwise.append(problem)
    say(report.report(settings, file, os.environ, found, unwise, home=str(where)))


def migrate(config: ConfigFile = None) -> None:
    """Bring the database to this version's tables.

    All or nothing; it may be repeated, and nothing happens when the tables are in place.
    """
    settings = prepare(enter(config)[0], quiet=True)
    database = settings.database
    from migrations import run  # noqa: PLC0415
    from migrations.version import SCHEMA_VERSION  # noqa: PLC0415

    finish(run.upgrade(database.url), settings)
    say(f"{database.shown} has the tables of this version, {SCHEMA_VERSION}.")


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
    file, where = enter(config)
    settings = prepare(file, quiet=True)
    from bot import doctor as examination  # noqa: PLC0415
    from bot.cautions import cautions  # noqa: PLC0415
    from bot.checks import works  # noqa: PLC0415

    unwise = cautions(settings, file, os.environ)
    found = asyncio.run(examination.examine(settings, online=online))
    findings = [works(f"{where}.", "Home"), *examination.told(settings, unwise), *found]
    for finding in findings:
        say(str(finding))
    raise typer.Exit(any(finding.good is False for finding in findings))


def health(config: ConfigFile = None) -> None:
    """Show the state of the bot that runs: queue, stalled work, deliveries, processes, disk.

    May be done while a bot runs. What its providers answered only the bot itself knows:
    `/retinue health` there.
    """
    settings = prepare(enter(config)[0], quiet=True)
    from bot import health as state  # noqa: PLC0415

    say(finish(state.of_database(settings), settings))


def config_docs() -> None:
    """Write config.example.yaml and docs/config.schema.json anew."""
    from bot.config import example  # noqa: PLC0415

    for file in example.write(Path()):
        say(f"{file} is written.")


def example() -> None:
    """Show every key of the configuration with its default.

    To begin with: retinue example > config.yaml
    """
    from bot.config import example as made  # noqa: PLC0415

    typer.echo(made.shipped(), nl=False)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - so typer calls it
    if not wanted:
        return
    from bot.versions import release  # noqa: PLC0415
    from migrations.version import SCHEMA_VERSION  # noqa: PLC0415

    typer.echo(release(SCHEMA_VERSION))
    raise typer.Exit


def options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and end."
        ),
    ] = False,
) -> None:
    """Take the options that belong to no command."""


def build() -> typer.Typer:
    """Return the command line."""
    app = typer.Typer(
        cls=ConsoleCommands,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help="Retinue: a chat bot whose main agent hands work to subagents.",
        epilog=f"Start with `{program()} chat`: it needs no key and no configuration.",
    )
    app.callback()(options)
    commands = (chat, ask, serve, worker, check, migrate, doctor, health, example, settings)
    for command in commands:
        app.command()(command)
    app.command(hidden=True)(config_docs)
    app.command()(accounts_console.export_user)
    app.command()(accounts_console.delete_user)
    app.command()(accounts_console.hold)
    app.command()(audit)
    app.command()(backup_console.backup)
    app.command()(backup_console.restore)
    app.command()(setup)
    app.add_typer(accounts_console.COMMANDS)
    for module in discovery.imported("console"):
        app.add_typer(module.COMMANDS)
    return app


def main() -> None:
    """Run the typed command."""
    if sys.platform == "win32":
        sys.exit(NO_WINDOWS)
    for stream in (sys.stdout, sys.stderr):
        # A terminal without ✓ in its encoding shows a question mark instead of failing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    build()(prog_name=program())


def _ask(
    settings: Config, text: str, name: str, *, agent: str = "", as_json: bool = False
) -> NoReturn:
    if not text:
        explain(BadRequestError("Say what to ask, or pipe it in: echo hello | retinue ask"))
        raise typer.Exit(2)
    work = _processes().ask(settings, text, name=name, agent=agent, as_json=as_json)
    raise typer.Exit(finish(work, settings))


def _processes() -> ModuleType:
    """Import what works; nothing of that is garbage, and looking for some takes a sixth of it."""
    gc.disable()
    try:
        from bot import processes  # noqa: PLC0415
    finally:
        gc.enable()
    return processes


def _is_piped() -> bool:
    return not sys.stdin.isatty()


def _question(text: str) -> str:
    """Return the given text, followed by the piped text.

    Raises:
        BadRequestError: The piped text is too long.
    """
    piped = sys.stdin.read(MAX_PIPED + 1) if _is_piped() else ""
    if len(piped) > MAX_PIPED:
        raise BadRequestError(f"More than {MAX_PIPED:,} characters are piped in: send a part.")
    return f"{text}\n\n{piped}".strip()


def _service(work: Coroutine[None, None, None], settings: Config) -> int:
    """Run a serving process; return 2 for an error that needs a change of the configuration."""
    try:
        finish(work, settings, loop_watch.run)
    except ConfigError as error:
        explain(error)
        if settings.logging.file:
            log.error("%s", error)
        return 2
    return 0


if __name__ == "__main__":
    main()
