"""The inbound port: the handler that adapters call, and the adapters that receive events."""

from collections.abc import Sequence
from typing import Protocol

from bot.conversations.command_lines import CommandSpec, CommandTable
from bot.platforms.base import CommandReply, Incoming, Overview
from bot.platforms.messages import Missed, PastMessage
from bot.values import Identity, Place, Role


class InboundHandler(Protocol):
    """The handler that an `Intake` calls; implemented by the orchestrator."""

    @property
    def command_table(self) -> CommandTable[CommandSpec]:
        """All commands, from which menus, completion and slash commands are made."""

    async def receive(self, incoming: Incoming) -> CommandReply | None:
        """Handle a message, which is stored on return, or a command, which is answered at once."""

    async def listens(self, user: Identity, place: Place) -> bool:
        """Return True if this user needs no mention here: a recent message or an open question."""

    def answers_bot(self, user: Identity) -> bool:
        """Return True if the mentions of another bot are answered."""

    def hears_all(self, place: Place) -> bool:
        """Return True if every message of a channel is for the bot."""

    async def overhear(self, incoming: Incoming, *, by_bot: bool = False) -> bool:
        """Store a message that is not for the bot; `False` if its place has no shared talk."""

    async def changed(self, place: Place, text: str | None) -> None:
        """Follow an edit of the message of a place, or its deletion for `None`."""

    async def compare(self, place: Place, messages: Sequence[PastMessage]) -> None:
        """Follow the edits and deletions that the newest messages of a place show.

        Args:
            place: The place.
            messages: Its newest messages since a time, without gaps, oldest first.
        """

    async def missed(self, platform: str, listener: str) -> Missed | None:
        """Return the places to read after a gap of a connection; `None` without a gap."""

    async def listening(self, listener: str) -> None:
        """Record that a connection receives events now and has no unread gap."""

    async def idle_places(self, platform: str) -> list[Place]:
        """Return the places with a recent turn that ended and without a turn that waits or runs."""

    async def answer(
        self,
        user: Identity,
        confirmation_id: str,
        *,
        choice: str,
        place: Place | None = None,
        admin: bool = False,
    ) -> CommandReply:
        """Handle the answer of the owner or of an admin to a confirmation.

        Args:
            user: The user who answers.
            confirmation_id: The id of the confirmation.
            choice: The `key` of one of its choices.
            place: The place of the answer; `None` for a place outside of servers and workspaces.
            admin: As in `Incoming`.
        """

    def role_of(self, user: Identity, place: Place) -> Role:
        """Return the rights of a user in a place, which decide the commands that are offered."""

    async def run_choices(
        self, user: Identity, typed: str, *, action: str = ""
    ) -> list[tuple[str, str]]:
        """Return (id, label) of this user's runs that match the typed text and the action."""

    async def overview(self, user: Identity) -> Overview:
        """Return the runs, usage and agents of a user."""


class Intake(Protocol):
    """Receives the events of one platform."""

    platform: str

    async def run(self, inbound: InboundHandler) -> None:
        """Receive events until cancelled, or until the user leaves."""
