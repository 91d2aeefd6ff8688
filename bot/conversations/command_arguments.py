"""The arguments of commands, with the values that they take (pure)."""

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum


class ArgumentKind(StrEnum):
    """The values that an argument takes."""

    #: One of the user's runs: the first letters of its id, its label, `#n` or `last`.
    RUN = "run"
    WORDS = "words"
    #: Free text: everything up to the end of the message.
    TEXT = "text"
    NUMBER = "number"
    #: The label of the argument, or nothing.
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a command.

    Attributes:
        label: Stands for the value in help, such as `ID`; the word itself for a flag.
        option: Whether it is typed as `--name value` before all other arguments.
        listed: Whether help and slash commands show it.
        least: The smallest number, or the fewest characters.
        most: The largest number, or the most characters; 0 for no limit.
        choices: Special values, each with the description of the command with this value; help
            and completion show them. Words in capitals stand for further values.
    """

    name: str
    label: str
    description: str
    kind: ArgumentKind = ArgumentKind.WORDS
    _: KW_ONLY
    required: bool = True
    option: bool = False
    listed: bool = True
    least: int = 0
    most: int = 0
    choices: tuple[tuple[str, str], ...] = ()

    @property
    def usage(self) -> str:
        """The argument as help shows it."""
        text = f"--{self.name} {self.label}" if self.option else self.label
        return text if self.required else f"[{text}]"
