"""Interprets typed lines: the terminal's own commands, answers to questions, and messages."""

import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from bot.errors import BotError, DeliveryError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.handler import InboundHandler
from bot.platforms.terminal.people import identity_of, place_of
from bot.platforms.terminal.state import TerminalState
from bot.platforms.terminal.surface import Notice, Surface
from bot.platforms.terminal.texts import OWN_HELP, not_offered, which_question
from bot.values import Identity

log = logging.getLogger(__name__)

#: Called when a user becomes active at the prompt, to deliver the user's pending announcements.
OnPresent = Callable[[Identity], Awaitable[None]]

TROUBLE = "Something went wrong on our side; the log has the details. Please try again."


@dataclass(eq=False, slots=True)
class LineHandler:
    """Handles the lines of the active user in order.

    Attributes:
        inbound: Receives messages and commands.
        state: The state of the terminal.
        surface: Shows the replies to commands.
        on_present: Called when a user becomes active at the prompt.
        left: Whether the user has left with `/quit` or `/exit`.
    """

    inbound: InboundHandler
    state: TerminalState
    surface: Surface
    on_present: OnPresent
    left: bool = False

    async def arrive(self, user: Identity) -> None:
        """Make a user active at the prompt; deliver pending announcements and open questions."""
        self.state.enter(user, self.surface)
        try:
            await self.on_present(user)
        except Exception:
            log.exception("What waits for %s was not delivered", user.account)
        for question in self.state.questions_of(user):
            await self.surface.show(question)

    async def take(self, line: str) -> bool:
        """Handle one line; return True if it was a message, whose reply follows separately."""
        text = line.strip()
        if not text:
            return False
        reply = await self._guarded(self._act(text))
        await self._show(reply)
        return reply is None

    async def stop_turn(self) -> None:
        """Stop the current turn, even while a line is being handled."""
        await self._show(await self._guarded(self._stop()))

    async def _show(self, reply: CommandReply | None) -> None:
        if reply is None or not reply.text:
            return
        try:
            await self.surface.show(reply)
        except DeliveryError as error:
            log.warning("The reply to a command was not shown: %s", error)

    async def _guarded(
        self, action: Coroutine[Any, Any, CommandReply | None]
    ) -> CommandReply | None:
        try:
            return await action
        except BotError as error:
            return CommandReply(text=str(error), failed=True)
        except Exception:
            log.exception("A line typed at the terminal failed")
            return CommandReply(text=TROUBLE, failed=True)

    async def _act(self, text: str) -> CommandReply | None:
        word, _, rest = text.partition(" ")
        match word.lower(), rest.strip():
            case (("/quit" | "/exit"), ""):
                self.left = True
                return CommandReply(text="")
            case "/as", name:
                user, before = identity_of(name), self._user
                if user == before:
                    return CommandReply(text=f"You are {name} already.")
                note = f"You are **{name}** now. "
                note += f"What {before.account} started goes on and waits for them."
                await self.surface.show(Notice(note))
                await self.arrive(user)
                return CommandReply(text="")
            case ("/yes" | "/all" | "/always" | "/no") as command, number:
                return await self._answer(command.removeprefix("/"), number)
            case ("yes" | "all" | "always" | "no") as answer, "" if self.state.questions_of(
                self._user, answer
            ):
                return await self._answer(answer, "")
            case "/stop", "":
                return await self._stop()
            case "/help", "":
                general = await self._hear(text) or CommandReply(text="")
                return replace(general, text=general.text.rstrip() + OWN_HELP)
            case _:
                return await self._hear(text)

    async def _answer(self, word: str, number: str) -> CommandReply:
        asked = self.state.questions_of(self._user)
        meant = [question for question in asked if question.id.endswith(number)]
        fitting = [each for each in self.state.questions_of(self._user, word) if each in meant]
        if len(fitting) > 1:
            return CommandReply(text=which_question(fitting, word), failed=True)
        if meant and not fitting:
            return CommandReply(text=not_offered(meant[0], word), failed=True)
        if not fitting and not number:
            return CommandReply(text="No question waits for your answer.", failed=True)
        confirmation_id = fitting[0].id if fitting else number
        reply = await self.inbound.answer(
            self._user, confirmation_id, choice=word, place=place_of(self._user)
        )
        if fitting or not reply.refused:
            # A refused answer to another user's question leaves that question open.
            self.state.drop_question(confirmation_id)
        return reply

    async def _stop(self) -> CommandReply | None:
        reply = await self._hear("/stop")
        self.state.forget(place_of(self._user))
        return reply

    async def _hear(self, text: str) -> CommandReply | None:
        user, place = self._user, place_of(self._user)
        busy = self.state.busy(user)
        incoming = Incoming(
            event_id=str(uuid.uuid4()),
            user=user,
            user_name=user.account,
            place=place,
            text=text,
        )
        reply = await self.inbound.receive(incoming)
        if reply is not None and not busy:
            self.state.forget(place)
        if reply is not None and reply.answered:
            self.state.drop_question(reply.answered)
        return reply

    @property
    def _user(self) -> Identity:
        assert self.state.present is not None, "Nobody is at the prompt."
        return self.state.present
