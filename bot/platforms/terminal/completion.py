"""Completes the user's input at the terminal: commands, runs and questions."""

from collections.abc import AsyncGenerator, Iterable, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from bot.agent.sanitizer import one_line
from bot.conversations.command_arguments import ArgumentKind
from bot.conversations.command_lines import GROUPS, CommandGroup
from bot.platforms.handler import InboundHandler
from bot.platforms.terminal.state import TerminalState
from bot.platforms.terminal.texts import number_of
from bot.values import Place, Role, short

#: The commands of the terminal itself.
OWN = {
    "/yes": "answer a question with yes",
    "/all": "allow what a run asks for, until it ends",
    "/always": "allow what a rule asks about, for 30 days",
    "/no": "answer a question with no",
    "/as": "be another user at this terminal",
    "/quit": "leave; runs are resumed at the next start",
}


class CommandCompleter(Completer):
    """Completes lines that begin with a slash."""

    def __init__(self, state: TerminalState, inbound: InboundHandler) -> None:
        self._state = state
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
        for word, meaning in (await self._choices(before, typed)).items():
            yield Completion(word, start_position=-len(typed), display_meta=meaning)

    @property
    def _role(self) -> Role:
        """The rights of the user at the prompt."""
        user = self._state.present
        if user is None:
            return Role.USER
        return self._inbound.role_of(user, Place(user.platform, channel=user.account))

    async def _choices(self, before: list[str], typed: str) -> Mapping[str, str]:
        table, role = self._inbound.command_table, self._role
        runs = f"/{CommandGroup.RUNS}"
        match before:
            case []:
                chat = [each for each in table.of(CommandGroup.CHAT) if each.is_for(role)]
                words = {runs: GROUPS[CommandGroup.RUNS]}
                words |= {f"/{each.name}": each.description for each in chat}
                return _fitting(words | OWN, typed)
            case [("/yes" | "/all" | "/always" | "/no") as word]:
                user = self._state.present
                asked = self._state.questions_of(user, word.removeprefix("/")) if user else []
                return _fitting({number_of(item): one_line(item.text) for item in asked}, typed)
            case [only] if only == runs:
                of_runs = [each for each in table.of(CommandGroup.RUNS) if each.is_for(role)]
                return _fitting({each.name: each.description for each in of_runs}, typed)
            case [_] | [_, _]:
                found = table.find(" ".join(before))
                known = found.command if found and not found.words else None
                if found and known is not None and not known.is_for(role):
                    # A command of users may have the same name.
                    known = table.get(CommandGroup.RUNS, found.name)
                if known is not None and known.is_for(role) and known.arguments:
                    argument = known.arguments[0]
                    values = {}
                    if argument.kind is ArgumentKind.RUN and self._state.present is not None:
                        listed = await self._inbound.run_choices(
                            self._state.present, typed, action=known.name
                        )
                        values = {short(run_id): one_line(label) for run_id, label in listed}
                    choices = {value.split()[0]: text for value, text in argument.choices}
                    return values | _fitting(choices, typed)
        return {}


def _fitting(words: Mapping[str, str], typed: str) -> dict[str, str]:
    return {word: meaning for word, meaning in words.items() if word.startswith(typed)}
