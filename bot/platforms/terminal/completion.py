"""Completes the user's input at the terminal: commands, actions, run ids and question ids."""

from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from bot.agent.sanitizer import one_line
from bot.platforms.base import InboundHandler
from bot.platforms.terminal.room import Room
from bot.platforms.terminal.texts import number_of
from bot.values import short

COMMANDS = {
    "/subagents": "your runs: list, stop, resume, log, info, send, spawn, usage, agents",
    "/new": "begin a new conversation",
    "/model": "what answers here; a name lets another answer",
    "/stop": "stop the answer under way",
    "/undo": "what can be taken back; last, or an id, takes it back",
    "/help": "what you can do here",
    "/yes": "answer a question with yes",
    "/all": "allow what a run asks for, until it ends",
    "/no": "answer a question with no",
    "/as": "be another person at this terminal",
    "/quit": "leave; runs are resumed at the next start",
}

ACTIONS = {
    "list": "your runs",
    "stop": "end a run, or all",
    "resume": "go on with a run that did not complete",
    "log": "what a run did",
    "info": "state and numbers of a run",
    "send": "say something to a run",
    "spawn": "start a run",
    "usage": "your limits and what is used",
    "agents": "who can do the work, with what, within which limits",
}

#: The actions that take the id of a run.
ABOUT_A_RUN = frozenset({"stop", "resume", "log", "info", "send"})


class CommandCompleter(Completer):
    """Completes lines that begin with a slash."""

    def __init__(self, room: Room, inbound: InboundHandler) -> None:
        self._room = room
        self._inbound = inbound

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """Return no completions: run ids are only available asynchronously."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield the completions of the word before the cursor."""
        line = document.text_before_cursor
        if not line.startswith("/"):
            return
        *before, typed = line.split(" ")
        for word, meaning in await self._choices(before, typed):
            yield Completion(word, start_position=-len(typed), display_meta=meaning)

    async def _choices(self, before: list[str], typed: str) -> list[tuple[str, str]]:
        match before:
            case []:
                return _fitting(COMMANDS, typed)
            case ["/undo"]:
                return _fitting({"last": "the last change"}, typed)
            case ["/subagents"]:
                return _fitting(ACTIONS, typed)
            case ["/subagents", action] if action in ABOUT_A_RUN:
                return await self._runs(typed, action)
            case [("/yes" | "/all" | "/no") as word]:
                return _fitting(self._questions(word.removeprefix("/")), typed)
            case _:
                return []

    async def _runs(self, typed: str, action: str) -> list[tuple[str, str]]:
        if self._room.present is None:
            return []
        runs = await self._inbound.run_choices(self._room.present, typed, action=action)
        choices = [(short(run_id), one_line(label)) for run_id, label in runs]
        every = _fitting({"all": "all your runs"}, typed) if action == "stop" else []
        return choices + every

    def _questions(self, word: str) -> dict[str, str]:
        user = self._room.present
        asked = self._room.questions_of(user, word) if user else []
        return {number_of(item): one_line(item.text) for item in asked}


def _fitting(words: dict[str, str], typed: str) -> list[tuple[str, str]]:
    return [(word, meaning) for word, meaning in words.items() if word.startswith(typed)]
