"""Buttons that work after a restart: their ids contain the action and the run."""

import logging
import re
from collections.abc import Mapping
from typing import Any, Self

import discord

from bot.platforms.base import CommandReply
from bot.platforms.discord.client import RetinueClient
from bot.platforms.discord.interactions import (
    Asked,
    Visit,
    attend,
    carry_out,
)
from bot.values import short

log = logging.getLogger(__name__)

_RUN = r"(?P<run>[0-9a-f-]{4,36})"
_SEND = re.compile(rf"run:send:{_RUN}")
_NEXT_PAGE = re.compile(rf"/subagents log {_RUN} (?P<page>\d{{1,6}})")

LONGEST_MESSAGE = 4_000

Button = discord.ui.Button[discord.ui.View | discord.ui.LayoutView]
DynamicButton = discord.ui.DynamicItem[Button]
#: The library types the client of a click as any client; ours are all `Asked`.
Clicked = discord.Interaction[Any]


def register(client: RetinueClient) -> None:
    """Register the handlers of button clicks and forms, for messages of any process."""

    async def on_interaction(interaction: Asked) -> None:
        await take_form(interaction)

    client.add_dynamic_items(StopButton, ResumeButton, LogButton, SendButton)
    client.event(on_interaction)


class StopButton(DynamicButton, template=rf"run:stop:{_RUN}"):
    """Stops a run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            Button(label="Stop", style=discord.ButtonStyle.danger, custom_id=f"run:stop:{run_id}")
        )
        self.run_id = run_id

    @classmethod
    async def from_custom_id(
        cls, interaction: Clicked, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """Return the button that was clicked."""
        return cls(match["run"])

    async def callback(self, interaction: Clicked) -> None:
        """Stop the run if the core allows it for this user."""
        await carry_out(interaction, f"/subagents stop {self.run_id}")


class ResumeButton(DynamicButton, template=rf"run:resume:{_RUN}"):
    """Resumes a run that did not complete."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            Button(
                label="Resume",
                style=discord.ButtonStyle.primary,
                custom_id=f"run:resume:{run_id}",
            )
        )
        self.run_id = run_id

    @classmethod
    async def from_custom_id(
        cls, interaction: Clicked, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """Return the button that was clicked."""
        return cls(match["run"])

    async def callback(self, interaction: Clicked) -> None:
        """Resume the run if the core allows it for this user."""
        await carry_out(interaction, f"/subagents resume {self.run_id}")


class LogButton(DynamicButton, template=rf"run:log:{_RUN}:(?P<page>\d{{1,6}})"):
    """Shows the first or a later page of a run's log."""

    def __init__(self, run_id: str, page: int = 1) -> None:
        super().__init__(
            Button(
                label="Log" if page == 1 else "More",
                style=discord.ButtonStyle.secondary,
                custom_id=f"run:log:{run_id}:{page}",
            )
        )
        self.run_id, self.page = run_id, page

    @classmethod
    async def from_custom_id(
        cls, interaction: Clicked, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """Return the button that was clicked."""
        return cls(match["run"], int(match["page"]))

    async def callback(self, interaction: Clicked) -> None:
        """Show the page with a button for the next page."""
        text = f"/subagents log {self.run_id} {self.page}"
        await carry_out(interaction, text, below=lambda reply: more_below(reply, self.run_id))


class SendButton(DynamicButton, template=_SEND):
    """Opens a form for a message to a run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            Button(
                label="Send", style=discord.ButtonStyle.secondary, custom_id=f"run:send:{run_id}"
            )
        )
        self.run_id = run_id

    @classmethod
    async def from_custom_id(
        cls, interaction: Clicked, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """Return the button that was clicked."""
        return cls(match["run"])

    async def callback(self, interaction: Clicked) -> None:
        """Open the form; permission to send is checked when the form is submitted."""

        async def handle(visit: Visit) -> None:
            await visit.interaction.response.send_modal(SendForm(self.run_id))

        await attend(interaction, handle)


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
    return Row(LogButton(run if whole else match["run"], int(match["page"])))


async def take_form(interaction: Asked) -> None:
    """Handle a submitted form, also one that an earlier process opened."""
    if interaction.type is not discord.InteractionType.modal_submit:
        return
    data: Mapping[str, object] = dict(interaction.data or {})
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
