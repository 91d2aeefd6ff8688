"""The slash commands; each is translated into the equivalent text command."""

import asyncio
import logging

import discord
from discord import app_commands

from bot.agent.sanitizer import one_line
from bot.platforms.discord.buttons import more_below
from bot.platforms.discord.client import RetinueClient
from bot.platforms.discord.interactions import (
    UNSENT,
    Asked,
    Visit,
    carry_out,
    say_at_once,
    visit_of,
)
from bot.platforms.messaging.intake import TROUBLE
from bot.values import short

log = logging.getLogger(__name__)

MOST_CHOICES = 25
LONGEST_CHOICE = 100
#: Discord waits 3 seconds for the choices, including both network trips.
CHOICES_SECONDS = 2.0
CHANGED = "This command has changed since Discord was loaded. Press Ctrl+R, then pick it again."

_RUN = "One of your runs: pick it, or type the first letters of its id, its label, or “last”"

RunHandle = app_commands.Range[str, 1, 100]
ChangeHandle = app_commands.Range[str, 0, 40]
Text = app_commands.Range[str, 1, 4_000]
Page = app_commands.Range[int, 1, 999_999]
Tokens = app_commands.Range[int, 1, 100_000_000]
Minutes = app_commands.Range[int, 1, 10_080]


def register(client: RetinueClient) -> None:
    """Register the slash commands with the client."""
    client.tree.add_command(Subagents())
    client.tree.add_command(Retinue())
    client.tree.error(on_error)


async def choose_run(interaction: Asked, typed: str) -> list[app_commands.Choice[str]]:
    """Return the user's runs that fit the command and the typed text, newest first."""
    visit = visit_of(interaction)
    if not isinstance(visit, Visit):
        return []
    try:
        async with asyncio.timeout(CHOICES_SECONDS):
            found = await visit.inbound.run_choices(
                visit.user, typed, action=interaction.command.name if interaction.command else ""
            )
    except Exception:
        log.exception("There are no choices for interaction %s", interaction.id)
        return []
    return [
        app_commands.Choice(name=one_line(f"{short(run)} {label}", LONGEST_CHOICE), value=run)
        for run, label in found[:MOST_CHOICES]
    ]


class Subagents(app_commands.Group, name="subagents", description="Work that goes on for you"):
    """Slash commands for a user's runs."""

    @app_commands.command(name="list", description="Your runs: what goes on, and what ended lately")
    @app_commands.describe(everyone="The runs of everyone (admins only)")
    async def list_runs(self, interaction: Asked, *, everyone: bool = False) -> None:
        """List runs."""
        await carry_out(interaction, "/subagents list all" if everyone else "/subagents list")

    @app_commands.command(description="Stop a run; you get what it has so far")
    @app_commands.describe(run=f"{_RUN}, or “all”")
    @app_commands.autocomplete(run=choose_run)
    async def stop(self, interaction: Asked, run: RunHandle) -> None:
        """Stop a run."""
        await carry_out(interaction, f"/subagents stop {_words(run)}")

    @app_commands.command(description="What a run said and did, step by step")
    @app_commands.describe(run=_RUN, page="Which page; the first one unless you say so")
    @app_commands.autocomplete(run=choose_run)
    async def log(self, interaction: Asked, run: RunHandle, page: Page = 1) -> None:
        """Show a page of a run's log."""
        await carry_out(
            interaction,
            f"/subagents log {_words(run)} {page}",
            below=lambda reply: more_below(reply, run),
        )

    @app_commands.command(description="How a run is doing: status, tokens, time, result")
    @app_commands.describe(run=_RUN)
    @app_commands.autocomplete(run=choose_run)
    async def info(self, interaction: Asked, run: RunHandle) -> None:
        """Show the status and the numbers of a run."""
        await carry_out(interaction, f"/subagents info {_words(run)}")

    @app_commands.command(description="The whole result of a run, also one that did not arrive")
    @app_commands.describe(run=_RUN)
    @app_commands.autocomplete(run=choose_run)
    async def read(self, interaction: Asked, run: RunHandle) -> None:
        """Show the whole result of a run."""
        await carry_out(interaction, f"/subagents read {_words(run)}")

    @app_commands.command(description="Tell a run something; it reads it before its next step")
    @app_commands.describe(run=_RUN, message="What it should know")
    @app_commands.autocomplete(run=choose_run)
    async def send(self, interaction: Asked, run: RunHandle, message: Text) -> None:
        """Send a message to a run."""
        await carry_out(interaction, f"/subagents send {_quoted(run)} {message}")

    @app_commands.command(description="Start a run in the background; the result comes here")
    @app_commands.describe(
        task="What it should do, with all that it has to know",
        agent="Who does it: general, explore, researcher … (/retinue help lists them)",
        label="A short name, to find it again",
        model="Which language model works on it (/retinue model lists them)",
        budget="The most tokens that it may use",
        minutes="The most minutes that it may take",
    )
    async def spawn(
        self,
        interaction: Asked,
        task: Text,
        agent: str = "",
        label: str = "",
        model: str = "",
        budget: Tokens | None = None,
        minutes: Minutes | None = None,
    ) -> None:
        """Start a run."""
        options = {
            "agent": agent,
            "label": label,
            "model": model,
            "budget": str(budget or ""),
            "minutes": str(minutes or ""),
        }
        await carry_out(interaction, spawn_line(task, options))

    @app_commands.command(
        description="Go on with a run that failed, was stopped or reached a limit"
    )
    @app_commands.describe(run=_RUN)
    @app_commands.autocomplete(run=choose_run)
    async def resume(self, interaction: Asked, run: RunHandle) -> None:
        """Resume a run that did not complete."""
        await carry_out(interaction, f"/subagents resume {_words(run)}")

    @app_commands.command(description="Your usage and limits")
    async def usage(self, interaction: Asked) -> None:
        """Show the usage and the limits of the user."""
        await carry_out(interaction, "/subagents usage")

    @app_commands.command(description="Who can do the work: their tools and limits")
    async def agents(self, interaction: Asked) -> None:
        """Show the agents."""
        await carry_out(interaction, "/subagents agents")

    @app_commands.command(description="Try again to deliver a result that did not reach you")
    @app_commands.describe(run=_RUN)
    @app_commands.autocomplete(run=choose_run)
    async def retry(self, interaction: Asked, run: RunHandle) -> None:
        """Deliver a result again."""
        await carry_out(interaction, f"/subagents retry {_words(run)}")

    @app_commands.command(description="Do without a result that could not be delivered")
    @app_commands.describe(run=_RUN)
    @app_commands.autocomplete(run=choose_run)
    async def dismiss(self, interaction: Asked, run: RunHandle) -> None:
        """Dismiss a result that could not be delivered."""
        await carry_out(interaction, f"/subagents dismiss {_words(run)}")


class Retinue(app_commands.Group, name="retinue", description="Your talk with me in this place"):
    """Slash commands for a user's conversation."""

    @app_commands.command(description="Start afresh: what was said here is set aside; runs go on")
    async def new(self, interaction: Asked) -> None:
        """Start a new conversation."""
        await carry_out(interaction, "/retinue new")

    @app_commands.command(
        description="Which language model answers here, or let another one answer"
    )
    @app_commands.describe(name="The model, or “default”; leave it out to see them all")
    async def model(self, interaction: Asked, name: str = "") -> None:
        """Show or choose the model."""
        await carry_out(interaction, f"/retinue model {_words(name)}".rstrip())

    @app_commands.command(
        description="What can be taken back: files, notes, memories … that were deleted or replaced"
    )
    @app_commands.describe(change="Its id, “last”, or “list NAME”; leave it out to see the newest")
    async def undo(self, interaction: Asked, change: ChangeHandle = "") -> None:
        """Show or take back changes."""
        await carry_out(interaction, f"/retinue undo {_words(change)}".rstrip())

    @app_commands.command(description="Your usage and limits")
    async def usage(self, interaction: Asked) -> None:
        """Show the usage and the limits of the user."""
        await carry_out(interaction, "/subagents usage")

    @app_commands.command(description="What I can do, and how you ask for it")
    async def help(self, interaction: Asked) -> None:
        """Show the help."""
        await carry_out(interaction, "/retinue help")

    @app_commands.command(description="Stop the answer that I am writing here; runs go on")
    async def stop(self, interaction: Asked) -> None:
        """Stop the current answer."""
        await carry_out(interaction, "/retinue stop")


async def on_error(interaction: Asked, error: app_commands.AppCommandError) -> None:
    """Log an error of the library's command handling and notify the user.

    `carry_out` handles the errors of the commands themselves.
    """
    gone = isinstance(error, app_commands.CommandNotFound | app_commands.CommandSignatureMismatch)
    if gone:
        log.warning("The command of interaction %s is not known: %s", interaction.id, error)
    else:
        log.error("The command of interaction %s failed", interaction.id, exc_info=error)
    if interaction.type is discord.InteractionType.autocomplete:
        return
    try:
        await say_at_once(interaction, CHANGED if gone else TROUBLE)
    except UNSENT as unsent:
        log.warning("The answer to interaction %s is lost: %s", interaction.id, unsent)


def spawn_line(task: str, options: dict[str, str]) -> str:
    """Return the text command that starts a run; options without a value are omitted."""
    chosen = "".join(f" --{name} {_quoted(value)}" for name, value in options.items() if value)
    return f"/subagents spawn{chosen} -- {task}"


def _words(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    """Return the text as one argument, quoted unless it is a single plain word."""
    line = _words(text)
    if line and not set(line) & set(" \"'") and not line.startswith("-"):
        return line
    if '"' not in line:
        return f'"{line}"'
    return "'{}'".format(line.replace("'", "’"))
