"""`retinue setup`: asks what is needed, checks each answer, and writes it down."""

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bot.config.loading import DEFAULT_FILE
from bot.console import ConfigFile, enter, program, say
from bot.errors import BadRequestError

if TYPE_CHECKING:
    from bot.setup import Setup, SetupAnswers

PROVIDERS = ("anthropic", "openai", "offline")
NO_TERMINAL = (
    "There is no terminal to ask at: give the answers as options, with --yes. `{} setup --help` "
    "lists them."
)


def _secret_option(variable: str, help_: str) -> Any:
    """Return an option that a variable of the environment gives as well."""
    return typer.Option(envvar=variable, show_envvar=True, help=help_)


_Provider = Annotated[
    str, typer.Option(help="anthropic, openai (or a server like it), or offline (the demo).")
]
_Url = Annotated[str, typer.Option(help="Address of a server like OpenAI's.")]
_Model = Annotated[str, typer.Option(help="Model; else the usual one of the provider.")]
_Database = Annotated[str, typer.Option(metavar="URL", help="Else a SQLite file.")]
_Admins = Annotated[
    list[str] | None,
    typer.Option(metavar="ACCOUNT", help="An operator: discord:1234; repeat it for others."),
]


def setup(  # noqa: PLR0913 - an option for each answer
    *,
    provider: _Provider = "",
    anthropic_key: Annotated[str, _secret_option("ANTHROPIC_API_KEY", "Key for Claude.")] = "",
    openai_key: Annotated[str, _secret_option("OPENAI_API_KEY", "Key for OpenAI.")] = "",
    openai_url: _Url = "",
    model: _Model = "",
    discord_token: Annotated[str, _secret_option("DISCORD_TOKEN", "Bot token of Discord.")] = "",
    slack_bot_token: Annotated[str, _secret_option("SLACK_BOT_TOKEN", "xoxb-…")] = "",
    slack_app_token: Annotated[str, _secret_option("SLACK_APP_TOKEN", "xapp-…")] = "",
    database: _Database = "",
    admin: _Admins = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: take the options.")] = False,
    check: Annotated[bool, typer.Option(help="Check the answers against the services.")] = True,
    config: ConfigFile = None,
) -> None:
    """Set the bot up: ask what is needed, check it, and write it down.

    May be run again: what is left empty stays as it is. The configuration is written to
    config.yaml, secrets to retinue.env, which only this account may read. Each admin gets a first
    message.
    """
    file = (enter(config)[0] or Path(DEFAULT_FILE)).absolute()
    from bot.setup import Setup, SetupAnswers  # noqa: PLC0415

    given = SetupAnswers(
        provider=provider,
        anthropic_key=anthropic_key,
        openai_key=openai_key,
        openai_url=openai_url,
        model=model,
        discord_token=discord_token,
        slack_bot_token=slack_bot_token,
        slack_app_token=slack_app_token,
        database=database,
        admins=tuple(admin or ()),
    )
    if provider not in {"", *PROVIDERS}:
        raise BadRequestError(f"--provider is one of {', '.join(PROVIDERS)}.")
    made = Setup(file, os.environ)
    if not yes and not sys.stdin.isatty():
        raise BadRequestError(NO_TERMINAL.format(program()))
    answers = _checked(made, given, check=check) if yes else _asked(made, given, check=check)
    made.config(answers)
    for each in made.write(answers):
        say(f"Written: {each}")
    if check:
        for found in asyncio.run(made.greet(answers)):
            say(str(found))
    say(f"Start it: {program()} serve. Look at it: {program()} doctor.")


def _checked(made: "Setup", answers: "SetupAnswers", *, check: bool) -> "SetupAnswers":
    """Return the answers, or end the program if one does not hold."""
    found = asyncio.run(made.checks(answers)) if check else []
    for each in found:
        say(str(each))
    if any(each.good is False for each in found):
        say("Nothing was written.")
        raise typer.Exit(2)
    return answers


def _asked(made: "Setup", given: "SetupAnswers", *, check: bool) -> "SetupAnswers":
    """Ask for each part until its answers hold; Ctrl-C ends it, and nothing is written."""
    from bot.setup import SetupAnswers  # noqa: PLC0415

    known, answers = made.known(), given
    for ask in (_ask_model, _ask_discord, _ask_slack, _ask_database, _ask_admins):
        while True:
            part = ask(answers, known)
            alone = replace(
                SetupAnswers(),
                **{
                    name: getattr(part, name)
                    for name in part.__dataclass_fields__
                    if getattr(part, name) != getattr(answers, name) or getattr(given, name)
                },
            )
            found = asyncio.run(made.checks(alone)) if check else []
            for each in found:
                say(str(each))
            if not any(each.good is False for each in found):
                answers = part
                break
            if not typer.confirm("Answer again?", default=True):
                raise typer.Exit(2)
    return answers


def _secret(text: str, given: str, known: str) -> str:
    """Ask for a secret, which is not shown; empty keeps the known one."""
    kept = " (Enter keeps the one that is set)" if given or known else " (Enter for none)"
    return str(typer.prompt(text + kept, default="", show_default=False, hide_input=True)) or given


def _ask_model(answers: "SetupAnswers", known: dict[str, str]) -> "SetupAnswers":
    usual = answers.provider or next(
        (name for name in PROVIDERS[:2] if known.get(f"{name.upper()}_API_KEY")), "anthropic"
    )
    say("Models: who answers? anthropic, openai (or a server like it), or offline (the demo).")
    provider = str(typer.prompt("Provider", default=usual)).strip().lower()
    if provider not in PROVIDERS:
        say(f"Write one of {', '.join(PROVIDERS)}.")
        return _ask_model(answers, known)
    answers = replace(answers, provider=provider)
    if provider == "anthropic":
        key = _secret("Key for Claude", answers.anthropic_key, known.get("ANTHROPIC_API_KEY", ""))
        return replace(answers, anthropic_key=key)
    if provider == "openai":
        url = typer.prompt("Address, empty for OpenAI", default="", show_default=False)
        key = _secret("Key", answers.openai_key, known.get("OPENAI_API_KEY", ""))
        name = typer.prompt("Model, empty for the usual one", default="", show_default=False)
        return replace(answers, openai_url=url.strip(), openai_key=key, model=name.strip())
    return answers


def _ask_discord(answers: "SetupAnswers", known: dict[str, str]) -> "SetupAnswers":
    say("Discord: docs/discord.md leads to the token.")
    token = _secret("Bot token", answers.discord_token, known.get("DISCORD_TOKEN", ""))
    return replace(answers, discord_token=token)


def _ask_slack(answers: "SetupAnswers", known: dict[str, str]) -> "SetupAnswers":
    say("Slack: docs/slack.md leads to the tokens.")
    bot = _secret("Bot token (xoxb-…)", answers.slack_bot_token, known.get("SLACK_BOT_TOKEN", ""))
    if not bot and not known.get("SLACK_BOT_TOKEN"):
        return answers
    app = _secret("App token (xapp-…)", answers.slack_app_token, known.get("SLACK_APP_TOKEN", ""))
    return replace(answers, slack_bot_token=bot, slack_app_token=app)


def _ask_database(answers: "SetupAnswers", _: dict[str, str]) -> "SetupAnswers":
    say("Database: a SQLite file is enough for one process; several need PostgreSQL.")
    url = typer.prompt("URL, empty for what is set", default=answers.database, show_default=False)
    return replace(answers, database=str(url).strip())


def _ask_admins(answers: "SetupAnswers", _: dict[str, str]) -> "SetupAnswers":
    say("Operators: accounts such as discord:1234567890 or slack:T012345:U012345.")
    typed = typer.prompt(
        "Accounts, with spaces between", default=" ".join(answers.admins), show_default=False
    )
    return replace(answers, admins=tuple(str(typed).replace(",", " ").split()))
