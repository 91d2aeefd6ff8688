"""Sends a single message: the answer goes to one stream, states and notes to another."""

import asyncio
import io
import json
from collections.abc import Callable
from typing import TextIO

from bot.agent.sanitizer import safe_markdown
from bot.platforms.base import Announcement, CommandReply, RunCard
from bot.platforms.handler import InboundHandler
from bot.platforms.terminal.listener import LineHandler, OnPresent
from bot.platforms.terminal.outlet import TerminalOutlet
from bot.platforms.terminal.people import PLATFORM, identity_of
from bot.platforms.terminal.plain import Pipe, everything_was_said
from bot.platforms.terminal.state import TerminalState
from bot.platforms.terminal.surface import FinalReply, Printable
from bot.values import Identity, Json, RunStatus


class Output:
    """The surface of one message.

    Args:
        answers: The stream for the answer and the results of its runs.
        notes: The stream for states, notes and failures.
        as_json: Whether to store the answer for `document` instead of writing it.
        results_only: Whether a run does the work, so that its result is the answer.

    Attributes:
        failed: Whether the message or a run that it started failed.
    """

    can_ask = False

    def __init__(
        self, answers: TextIO, notes: TextIO, *, as_json: bool = False, results_only: bool = False
    ) -> None:
        # A JSON document replaces the text of the answers.
        self._answers = Pipe(io.StringIO() if as_json else answers)
        self._notes = Pipe(notes)
        self._as_json = as_json
        self._results_only = results_only
        self.failed = False
        self._texts: list[str] = []
        self._results: dict[str, str] = {}
        self._ended: dict[str, RunCard] = {}

    @property
    def document(self) -> Json:
        """The answer and the runs as a JSON object."""
        runs = [
            {
                "id": card.run_id,
                "agent": card.agent,
                "label": card.label,
                "status": str(card.status),
                "tokens": card.tokens,
                "result": self._results.get(card.run_id, ""),
            }
            for card in self._ended.values()
        ]
        answer = "\n\n".join(safe_markdown(text) for text in self._texts)
        return {"answer": answer, "runs": runs, "failed": self.failed}

    def show(
        self, item: Printable, as_shown: Callable[[], None] | None = None
    ) -> asyncio.Future[None]:
        """Write an item to the stream of its kind; see `Surface.show`."""
        match item:
            case FinalReply(text, failed):
                return self._answer(text, item, as_shown, failed=failed)
            case CommandReply(text=text) if item.failed or not self._results_only:
                return self._answer(text, item, as_shown, failed=item.failed)
            case Announcement(results=results) if any(run in self._ended for run, _ in results):
                self._results.update(results)
                if self._results_only:
                    return self._answer(item.text, FinalReply(item.text), as_shown, failed=False)
                return self._answers.show(item, as_shown)
            case _:
                return self._notes.show(item, as_shown)

    def card_moved(self, card: RunCard, before: RunStatus | None) -> None:
        """Write a line for each new status of a run and record runs that have ended."""
        if card.status.final and not card.awaited:
            self._ended[card.run_id] = card
            self.failed |= card.status is not RunStatus.COMPLETED
        self._notes.card_moved(card, before)

    def moved(self) -> None:
        """Do nothing, since written text is not redrawn."""

    def user_changed(self, user: Identity) -> None:
        """Do nothing, since the user is always the same."""

    def _answer(
        self, text: str, item: Printable, as_shown: Callable[[], None] | None, *, failed: bool
    ) -> asyncio.Future[None]:
        self.failed |= failed
        self._texts.append(text)
        stream = self._notes if failed and not self._as_json else self._answers
        return stream.show(item, as_shown)


class OneMessage:
    """The terminal as a platform for a single message.

    Args:
        text: The message.
        name: The user's name.
        agent: The agent that handles the message as a run; empty for the main agent.
        as_json: Whether to write one JSON object instead of the answer.
        on_present: Called when the user becomes active, before the message is sent.
        answers: The stream for the answer.
        notes: The stream for all other output.
    """

    platform = PLATFORM

    def __init__(
        self,
        text: str,
        *,
        name: str,
        agent: str = "",
        as_json: bool = False,
        on_present: OnPresent,
        answers: TextIO,
        notes: TextIO,
    ) -> None:
        self._user = identity_of(name)
        self._text = f"/subagents spawn --agent {agent} -- {text.strip()}" if agent else text
        self._as_json = as_json
        self._on_present = on_present
        self._answers = answers
        self._output = Output(answers, notes, as_json=as_json, results_only=bool(agent))
        self._state = TerminalState()
        self.outlet = TerminalOutlet(self._state)

    @property
    def failed(self) -> bool:
        """True if the message or a run that it started failed."""
        return self._output.failed

    async def run(self, inbound: InboundHandler, *, idle_seconds: float = 2.0) -> None:
        """Send the message and wait for its answer and the results of its runs."""
        listener = LineHandler(inbound, self._state, self._output, self._on_present)
        try:
            await listener.arrive(self._user)
            replied = self._state.next_reply()
            if await listener.take(self._text):
                await replied()
            await everything_was_said(self._state, idle_seconds=idle_seconds)
        finally:
            self._state.leave()
        if self._as_json:
            document = json.dumps(self._output.document, ensure_ascii=False)
            print(document, file=self._answers, flush=True)
