"""Describes commands: their words, arguments and texts; reads typed lines as commands (pure)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from bot.agent.sanitizer import one_line
from bot.conversations.command_arguments import Argument, ArgumentKind
from bot.errors import BadRequestError
from bot.values import ADMINS, Role, RunStatus

_OPTION = re.compile(r"--(\w[\w-]*)(?:=|\s+)(\"[^\"]*\"|'[^']*'|(?!--)\S+)\s*")
#: Most words of a name or a handle in a message; more are a sentence.
MOST_NAME_WORDS = 6
_SLACK_HELP = """

Slack has no slash commands in threads: type `!` instead of `/` there, such as `!subagents list`."""


class CommandGroup(StrEnum):
    """The slash command that a command belongs to."""

    RUNS = "subagents"
    CHAT = "retinue"


#: The description of each group, for menus.
GROUPS = {
    CommandGroup.RUNS: "Your runs: work that subagents do for you",
    CommandGroup.CHAT: "Our conversation in this place",
}
#: The words that begin a line with a command of a group.
_FIRST_WORDS = {**{str(each): each for each in CommandGroup}, "subagent": CommandGroup.RUNS}
#: The commands without a further word.
_DEFAULTS = {CommandGroup.RUNS: "list", CommandGroup.CHAT: "help"}


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command as users see it; help, menus, completion and parsing are made from it.

    Attributes:
        groups: The groups that have the command; help lists it in the first.
        description: For help, completion and slash commands, at most 100 characters.
        aliases: Further names.
        admin: Whether only admins have it, with `operator` only operators. On Discord it is part of
            a slash command of its own, which few are offered.
        public: Whether everyone in the place may read the answer, since it names no runs.
        changes: Returns True if the command with these words does more than show something.
        opens: Whether it needs a conversation when it changes something.
        threaded: Whether a change concerns the conversation of one thread; slash commands of Slack
            do not work in threads.
        fits: Returns True if the command makes sense for a run of this status, whose result is
            undelivered or not: menus offer these runs.
        without_runs: The answer to a user without such a run.
        secret: Whether its words may hold a secret: they are stored nowhere.
        button: The style of its button on run cards: `danger`, `primary` or `secondary`; empty for
            no button.
    """

    groups: tuple[CommandGroup, ...]
    name: str
    description: str
    arguments: tuple[Argument, ...] = ()
    _: KW_ONLY
    aliases: tuple[str, ...] = ()
    admin: bool = False
    operator: bool = False
    public: bool = False
    changes: Callable[[str], bool] = lambda _: False
    opens: bool = False
    threaded: bool = False
    fits: Callable[[RunStatus, bool], bool] = lambda *_: True
    without_runs: str = "You have no runs."
    secret: bool = False
    button: str = ""

    def is_for(self, rights: Role) -> bool:
        """Return True if a user with these rights has the command."""
        return not self.admin or rights in ({Role.OPERATOR} if self.operator else ADMINS)

    @property
    def listed(self) -> list[Argument]:
        """The arguments that help and slash commands show."""
        return [each for each in self.arguments if each.listed]

    @property
    def run(self) -> Argument | None:
        """The argument that names a run; `None` for a command without one."""
        return next((each for each in self.arguments if each.kind is ArgumentKind.RUN), None)

    @property
    def text(self) -> Argument | None:
        """The argument that takes free text; `None` for a command without one."""
        return next((each for each in self.arguments if each.kind is ArgumentKind.TEXT), None)

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The flags and the special values of the arguments, with their descriptions."""
        flags = [each for each in self.listed if each.kind is ArgumentKind.FLAG]
        found = [(each.label, each.description) for each in flags]
        return found + [choice for each in self.arguments for choice in each.choices]

    @property
    def usage(self) -> str:
        """The name and the arguments without flags."""
        shown = [each for each in self.listed if each.kind is not ArgumentKind.FLAG]
        return " ".join([self.name, *(each.usage for each in shown)])

    @property
    def most_words(self) -> int:
        """Most words after the name in a line without `/` or `!`: a longer line is a sentence."""
        return 10_000 if self.text else 2 if self.run else 1

    def parse(self, words: str) -> dict[str, str]:
        """Return the arguments in the words after the name.

        Raises:
            BadRequestError: An argument is missing, unknown or malformed; the text has the usage.
        """
        found, rest = self._split(words)
        usage = f"Usage: /{self.groups[0]} {self.usage}"
        flags = all(each.kind is ArgumentKind.FLAG for each in self.arguments)
        if flags and self.changes(words) and not self.takes(words):
            raise BadRequestError(usage)
        options = {each.name for each in self.arguments if each.option}
        unknown = sorted(set(found) - {each.name for each in self.arguments})
        if options and (unknown or re.match(r"--(?!\s)", rest)):
            name = unknown[0] if unknown else re.split(r"[\s=]", rest[2:], maxsplit=1)[0].lower()
            wrong = "needs a value" if name in options else "is unknown"
            raise BadRequestError(f"--{one_line(name, 30)} {wrong}. {usage}")
        for each in self.arguments:
            value = found.get(each.name, "")
            if each.required and not value:
                if each is self.run and not words:
                    raise BadRequestError(f"Which run? {usage}. /subagents list shows yours.")
                raise BadRequestError(usage)
            malformed = not value.isdecimal() or len(value) > 9
            if value and malformed and each.kind is ArgumentKind.NUMBER:
                raise BadRequestError(
                    f"--{each.name} takes a whole number, such as --{each.name} 5."
                )
        return found

    def _split(self, words: str) -> tuple[dict[str, str], str]:
        """Return the arguments, unchecked, and the text after the options."""
        found: dict[str, str] = {}
        after = rest = words.strip()
        positional = [each for each in self.arguments if not each.option]
        if len(positional) < len(self.arguments):
            while match := _OPTION.match(rest):
                found[match[1].lower()] = match[2].strip("\"'")
                rest = rest[match.end() :]
            after, rest = rest, re.sub(r"\A--\s+", "", rest)
        match positional:
            case [Argument(kind=ArgumentKind.FLAG, label=label)]:
                values = [label * (rest.lower() == label)]
            case [_, Argument(kind=ArgumentKind.NUMBER)]:
                head, _, last = rest.rpartition(" ")
                values = [head, last[:6]] if head and last.isdecimal() else [rest]
            case [_, _]:
                values = [*handle_and_rest(rest)]
            case _:
                values = [rest]
        found.update((each.name, value) for each, value in zip(positional, values, strict=False))
        return found, after

    def takes(self, words: str) -> bool:
        """Return True if the command has an argument for these words."""
        match self.arguments:
            case ():
                return not words.strip()
            case [Argument(kind=ArgumentKind.FLAG, label=label)]:
                return words.strip().lower() in {"", label}
            case [Argument(kind=ArgumentKind.WORDS | ArgumentKind.RUN)]:
                # A handle or a name is one word, unless it stands in quotes.
                name = words.strip()
                quoted = name[:1] in {'"', "'"} and name[-1:] == name[:1]
                return quoted or len(name.split()) <= MOST_NAME_WORDS
            case _:
                return True

    def leaves_quote_open(self, words: str) -> bool:
        """Return True if a quotation begins before the free text and never ends."""
        text = self._split(words)[0].get(self.text.name, "") if self.text else ""
        head = words.strip().removesuffix(text)
        return head.count('"') % 2 == words.count('"') % 2 == 1

    def line(self, values: Mapping[str, str]) -> str:
        """Return the line with these arguments, which `parse` reads back; empty ones are omitted.

        The first word after the group is the name of the command.
        """
        parts = [f"/{self.groups[0]}", self.name]
        ends_options = any(each.option for each in self.arguments)
        for each in sorted(self.arguments, key=lambda each: not each.option):
            value = values.get(each.name, "")
            if not value:
                continue
            if ends_options and not each.option:
                parts.append("--")
                ends_options = False
            if each.option:
                parts.append(f"--{each.name} {quoted(value)}")
            elif each.kind is ArgumentKind.FLAG:
                parts.append(each.label)
            elif each.kind is ArgumentKind.TEXT:
                parts.append(value)
            else:
                parts.append(quoted(value) if self.text else " ".join(value.split()))
        return " ".join(parts)


Spec_co = TypeVar("Spec_co", bound=CommandSpec, covariant=True)


@dataclass(frozen=True, slots=True)
class TypedCommand(Generic[Spec_co]):
    """A command that was typed.

    Attributes:
        name: The name as typed.
        words: The words after the name.
        command: The command of that name; `None` if it does not exist.
    """

    group: CommandGroup
    name: str
    words: str
    command: Spec_co | None

    @property
    def exact(self) -> bool:
        """True if nothing follows the command that it does not take."""
        return not self.words if self.command is None else self.command.takes(self.words)

    @property
    def changes(self) -> bool:
        """True if the command does more than show something."""
        return self.command is not None and self.command.changes(self.words)


@dataclass(frozen=True, slots=True)
class CommandTable(Generic[Spec_co]):
    """All commands of a bot."""

    commands: tuple[Spec_co, ...]

    def of(self, group: CommandGroup) -> list[Spec_co]:
        """Return the commands of a group."""
        return [each for each in self.commands if group in each.groups]

    def get(self, group: CommandGroup, name: str) -> Spec_co | None:
        """Return a command by its name or another name; `None` if it does not exist."""
        for each in self.commands:
            if group in each.groups and name.lower() in (each.name, *each.aliases):
                return each
        return None

    def find(self, text: str) -> TypedCommand[Spec_co] | None:
        """Return the command in a message; `None` for any other message.

        `!subagents list` and `subagents list` mean `/subagents list`, since not every platform
        transmits a slash everywhere; `/retinue new` means `/new`.
        """
        line = text.strip()
        sign = line[:1] if line.startswith(("/", "!")) else ""
        first, rest = parted(line.removeprefix(sign))
        group = _FIRST_WORDS.get(first.lower())
        if sign == "!" and (
            line[1:2].isspace() or not (group or self.get(CommandGroup.CHAT, first))
        ):
            return None
        if group is None:
            return self._of_chat(first, rest, CommandGroup.CHAT) if sign else None
        name, words = parted(rest or _DEFAULTS[group])
        of_runs = self.get(CommandGroup.RUNS, name)
        # Without a sign, a command of runs is told from a sentence about subagents by its length.
        if not sign and (
            group is not CommandGroup.RUNS
            or of_runs is None
            or len(words.split()) > of_runs.most_words
        ):
            return None
        if group is CommandGroup.RUNS:
            return TypedCommand(group, name, words, of_runs)
        return self._of_chat(name, words, CommandGroup.RUNS)

    def _of_chat(self, name: str, words: str, other: CommandGroup) -> TypedCommand[Spec_co]:
        """Return a command of the conversation, or of runs: `/stop` and `/stop ID` differ.

        Args:
            name: The name.
            words: The words after it.
            other: Where to look if the conversation has no such command.
        """
        command = self.get(CommandGroup.CHAT, name)
        of_runs = None
        if command is None:
            of_runs = self.get(other, name)
        elif command.admin and words.partition(" ")[0].lower() not in {
            value.split()[0] for value, _ in command.choices
        }:
            # A command of users has the same name: `/resume ID` is about a run.
            of_runs = self.get(CommandGroup.RUNS, name) if words else None
        elif words and all(
            each.kind is ArgumentKind.FLAG and words.lower() != each.label
            for each in command.arguments
        ):
            # These words cannot be arguments of the command of the conversation.
            of_runs = self.get(CommandGroup.RUNS, name)
        if of_runs is not None and of_runs is not command:
            return TypedCommand(CommandGroup.RUNS, name, words, of_runs)
        return TypedCommand(CommandGroup.CHAT, name, words, command)

    def typed(self, words: str, platform: str) -> str:
        """Return a command of the conversation in the form that users of a platform type.

        A command that concerns a thread has another form on Slack, whose slash commands do not
        work in threads. Discord sends only registered commands.
        """
        name, rest = parted(words)
        command = self.get(CommandGroup.CHAT, name)
        if platform == "terminal":
            return f"/{words}"
        if platform == "discord" and (command is None or command.admin):
            return f"!retinue {words}"
        if platform == "slack" and command and command.threaded and command.changes(rest):
            return f"!{words}"
        return f"/retinue {words}"

    def named(self, typed: TypedCommand[CommandSpec], platform: str) -> str:
        """Return the name of a typed command without its words, which others need not read."""
        if typed.group is CommandGroup.RUNS:
            return one_line(f"/subagents {typed.name}", 40)
        return one_line(self.typed(typed.name, platform), 40)

    def help(self, platform: str, rights: Role = Role.USER) -> str:
        """Return the commands of users with these rights as they type them, Markdown."""
        lines = ["**Runs** (an id is its first letters, a label, `#n`, or `last`)"]
        lines += self._help_lines(CommandGroup.RUNS, platform, Role.USER)
        lines += ["", "**Chat**", *self._help_lines(CommandGroup.CHAT, platform, Role.USER)]
        text = "\n".join(lines) + _SLACK_HELP * (platform == "slack")
        more = rights in ADMINS and self._help_lines(CommandGroup.CHAT, platform, rights)
        return "\n".join([text, "", "**For admins**", *more]) if more else text

    def _help_lines(self, group: CommandGroup, platform: str, rights: Role) -> list[str]:
        lines = []
        for each in self.commands:
            shown = each.is_for(rights) and each.admin is (rights in ADMINS)
            if each.groups[0] is not group or not shown:
                continue
            forms = [(each.usage, each.description)]
            forms += [(f"{each.name} {value}", text) for value, text in each.choices]
            for words, text in forms:
                runs = group is CommandGroup.RUNS
                form = f"/subagents {words}" if runs else self.typed(words, platform)
                lines.append(f"- `{form}` – {text[:1].lower()}{text[1:]}")
        return lines


def quoted(text: str) -> str:
    """Return the text as one argument, quoted unless it is a single plain word."""
    line = " ".join(text.split())
    if line and not set(line) & set(" \"'") and not line.startswith("-"):
        return line
    return f'"{line}"' if '"' not in line else "'{}'".format(line.replace("'", "’"))


def handle_and_rest(words: str) -> tuple[str, str]:
    """Return the handle of a run, which may be a quoted label, and the raw text after it."""
    if words[:1] in {'"', "'"}:
        end = words.find(words[0], 1)
        if end > 0:
            return words[1:end], words[end + 1 :].strip()
    handle, _, rest = words.partition(" ")
    return handle, rest.strip()


def parted(line: str) -> tuple[str, str]:
    """Return the first word of a line and the text after it; empty texts for none."""
    first, *rest = line.split(maxsplit=1) or [""]
    return first, rest[0] if rest else ""
