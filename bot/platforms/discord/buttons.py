"""Buttons that work after a restart: their ids contain the action and the run."""

import logging
import re
from collections.abc import Mapping
from typing import Any, Self

import discord

from bot.conversations.command_lines import CommandGroup
from bot.conversations.command_table import COMMANDS
from bot.platforms.base import CommandReply
from bot.platforms.discord.interactions import ClientInteraction, admit, carry_out
from bot.values import RunStatus, short

log = logging.getLogger(__name__)

#: A run; with a `+`, all runs that its turn started.
_RUN = r"(?P<run>[0-9a-f-]{4,36}\+?)"
_NAMES = "|".join(each.name for each in COMMANDS.commands if each.button)
_SEND = re.compile(rf"run:send:{_RUN}")
_NEXT_PAGE = re.compile(rf"/subagents log {_RUN} (?P<page>\d{{1,6}})")

LONGEST_MESSAGE = 4_000

Button = discord.ui.Button[discord.ui.View | discord.ui.LayoutView]
DynamicButton = discord.ui.DynamicItem[Button]
#: The library types the client of a click as any client; ours are all `Asked`.
Clicked = discord.Interaction[Any]


class RunButton(DynamicButton, template=rf"run:(?P<name>{_NAMES}):{_RUN}(:(?P<page>\d{{1,6}}))?"):
    """Carries out a command about a run; asks for the text if the command has one.

    Args:
        name: The name of the command.
        run_id: The run.
        page: A further page of the answer; empty for the first one.
    """

    def __init__(self, name: str, run_id: str, page: str = "") -> None:
        command = COMMANDS.get(CommandGroup.RUNS, name)
        assert command is not None, "Only commands have buttons."
        super().__init__(
            Button(
                label="More" if page else name.capitalize() + " all" * run_id.endswith("+"),
                style=discord.ButtonStyle["secondary" if page else command.button],
                custom_id=":".join(each for each in ("run", name, run_id, page) if each),
            )
        )
        self._command, self._run_id, self._page = command, run_id, page

    @classmethod
    async def from_custom_id(
        cls, interaction: Clicked, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """Return the button that was clicked."""
        return cls(match["name"], match["run"], match["page"] or "")

    async def callback(self, interaction: Clicked) -> None:
        """Carry out the command if the core allows it; a form is checked when it is submitted."""
        run = self._run_id
        if self._command.text is not None:
            await admit(interaction, lambda _: interaction.response.send_modal(SendForm(run)))
            return
        line = self._command.line({"run": run, "page": self._page})
        await carry_out(interaction, line, below=lambda reply: more_below(reply, run))


def run_buttons(run_id: str, status: RunStatus) -> list[RunButton]:
    """Return the buttons of the commands that make sense for a run."""
    return [
        RunButton(each.name, run_id)
        for each in COMMANDS.commands
        if each.button and each.fits(status, False)  # noqa: FBT003 - the result may be delivered
    ]


class Unkept:
    """A view or form that the library does not store; its ids lead to the handlers."""

    def is_finished(self) -> bool:
        """Return True, so that the library does not store the view."""
        return True


class Row(Unkept, discord.ui.View):
    """Buttons below a message."""

    def __init__(self, *buttons: DynamicButton) -> None:
        super().__init__(timeout=None)
        for button in buttons:
            self.add_item(button)


class SendForm(Unkept, discord.ui.Modal):
    """Asks for a message to a run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            title=f"Message to run {short(run_id)}", timeout=None, custom_id=f"run:send:{run_id}"
        )
        self.add_item(
            discord.ui.Label(
                text="What should it know?",
                description="It reads this before its next step.",
                component=discord.ui.TextInput(
                    style=discord.TextStyle.paragraph,
                    custom_id="text",
                    max_length=LONGEST_MESSAGE,
                ),
            )
        )


def more_below(reply: CommandReply, run: str) -> Row | None:
    """Return the button for the next page of a log; `None` after the last page.

    Args:
        reply: The current page.
        run: The run as requested; a full id is used instead of the short one in the reply.
    """
    match = _NEXT_PAGE.fullmatch(reply.more)
    if match is None:
        return None
    whole = re.fullmatch(_RUN, run) is not None and run.startswith(match["run"])
    return Row(RunButton("log", run if whole else match["run"], match["page"]))


async def take_form(interaction: ClientInteraction, data: Mapping[str, object]) -> None:
    """Handle a submitted form, also one that an earlier process opened."""
    match = _SEND.fullmatch(str(data.get("custom_id", "")))
    if match is None:
        log.info("Nobody knows the form of interaction %s", interaction.id)
        return
    await carry_out(interaction, f"/subagents send {match['run']} {_written(data)}")


def _written(part: object) -> str:
    """Return the text in the only field of a form, at any depth of nesting."""
    if isinstance(part, list):
        return "".join(_written(each) for each in part)
    if not isinstance(part, Mapping):
        return ""
    inner = [part.get("components"), part.get("component")]
    return str(part.get("value") or "") + _written(inner)
