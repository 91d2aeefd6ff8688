"""Reading of typed lines as commands with arguments."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.conversations.command_lines import CommandGroup
from bot.conversations.command_table import COMMANDS
from bot.errors import BadRequestError


def parsed(words: str) -> dict[str, str]:
    """Return the arguments of `/subagents spawn`, without the empty ones."""
    spawn = COMMANDS.get(CommandGroup.RUNS, "spawn")
    assert spawn is not None
    return {name: value for name, value in spawn.parse(words).items() if value}


def test_words_without_options_are_the_task() -> None:
    assert parsed("Count the sheep -- all of them") == {"task": "Count the sheep -- all of them"}


def test_options_stand_before_the_task() -> None:
    assert parsed(
        "--agent explore --label 'black sheep' --model=small --provider openai --budget 9000 "
        '--minutes 3 --steps 7 --announce "silent" Count --all of them'
    ) == {
        "task": "Count --all of them",
        "agent": "explore",
        "label": "black sheep",
        "model": "small",
        "provider": "openai",
        "budget": "9000",
        "minutes": "3",
        "steps": "7",
        "announce": "silent",
    }


def test_a_task_keeps_its_lines() -> None:
    assert parsed("--label x\nOne.\n  Two.")["task"] == "One.\n  Two."


def test_an_option_is_known_however_it_is_written() -> None:
    assert parsed("--LABEL x Count.")["label"] == "x"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--colour red Count.", "--colour is unknown"),
        ("--colour", "--colour is unknown"),
        ("--label", "--label needs a value"),
        ("--label=", "--label needs a value"),
        ("--label --agent x Count.", "--label needs a value"),
        ("--budget lots Count.", "--budget takes a whole number"),
        ("--budget 9² Count.", "--budget takes a whole number"),
        ("--minutes 2.5 Count.", "--minutes takes a whole number"),
        ("--steps -3 Count.", "--steps takes a whole number"),
        ("--steps 9999999999 Count.", "--steps takes a whole number"),
        ("", "Usage: /subagents spawn [--agent A]"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(words: str, said: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        parsed(words)

    assert str(raised.value).startswith(said)


pieces = st.sampled_from(
    [
        "--",
        "--label",
        "--budget",
        "--Agent",
        "=",
        " ",
        "\n",
        '"',
        "'",
        "5",
        "٣",
        "²",
        "x y",
        "-",
        "é",
    ]
)


@given(st.lists(pieces | st.text(max_size=3), max_size=12).map("".join))
def test_whatever_is_typed_is_a_request_or_refused_in_a_sentence(words: str) -> None:
    try:
        task = parsed(words)["task"]
    except BadRequestError as error:
        text = str(error)
    else:
        text = ""
        assert words.rstrip().endswith(task)
        assert not task.startswith("--") or re.search(r"--\s", words)
    assert len(text) < 300


values = st.text("abcÄé123 -=", min_size=1, max_size=20)


@given(label=values, budget=st.integers(0, 10**9 - 1), task=st.text("abc -\n", min_size=1))
def test_what_is_quoted_arrives_as_it_is(label: str, budget: int, task: str) -> None:
    found = parsed(f'--label "{label}" --budget {budget} x{task}')

    assert found == {"label": label, "budget": str(budget), "task": f"x{task}".rstrip()}


def test_two_dashes_end_the_options() -> None:
    assert parsed("--agent explore -- --label is what I want explained") == {
        "agent": "explore",
        "task": "--label is what I want explained",
    }


@pytest.mark.parametrize(
    ("name", "words", "arguments"),
    [
        ("list", "", {}),
        ("list", "ALL", {"everyone": "all"}),
        ("list", "something", {}),
        ("stop", "my barn owls", {"run": "my barn owls"}),
        ("log", "my 2 3", {"run": "my 2", "page": "3"}),
        ("log", "my run", {"run": "my run"}),
        ("log", "7", {"run": "7"}),
        ("log", "x 99999999", {"run": "x", "page": "999999"}),
        ("send", '"my run" use euros', {"run": "my run", "message": "use euros"}),
        ("usage", "whatever", {"whose": "whatever"}),
    ],
)
def test_each_command_reads_its_own_arguments(
    name: str, words: str, arguments: dict[str, str]
) -> None:
    command = COMMANDS.get(CommandGroup.RUNS, name)

    assert command is not None
    assert {key: value for key, value in command.parse(words).items() if value} == arguments


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("stop", "", "Which run? Usage: /subagents stop ID. /subagents list shows yours."),
        ("log", "", "Which run? Usage: /subagents log ID [page]. /subagents list shows yours."),
        ("send", "1a2b", "Usage: /subagents send ID MESSAGE"),
    ],
)
def test_a_missing_argument_is_asked_for_with_the_usage(name: str, words: str, said: str) -> None:
    command = COMMANDS.get(CommandGroup.RUNS, name)

    assert command is not None
    with pytest.raises(BadRequestError) as raised:
        command.parse(words)
    assert str(raised.value) == said


def read(text: str) -> str:
    """Return the command in a text in one form: `/subagents name words` or `/name words`."""
    found = COMMANDS.find(text)
    assert found is not None
    group = "subagents " if found.group is CommandGroup.RUNS else ""
    return f"/{group}{found.name} {found.words}".rstrip()


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("/subagents list", "/subagents list"),
        ("  /Help me ", "/Help me"),
        ("!subagents stop 1a2b", "/subagents stop 1a2b"),
        ("!new", "/new"),
        ("subagents", "/subagents list"),
        ("Subagents list all", "/subagents list all"),
        ("subagents send 1a2b look at the barn too", "/subagents send 1a2b look at the barn too"),
        ("subagents spawn Count the sheep", "/subagents spawn Count the sheep"),
        ("/retinue", "/help"),
        ("/retinue help", "/help"),
        ("/retinue new", "/new"),
        ("/retinue stop", "/stop"),
        ("/retinue stop last", "/subagents stop last"),
        ("/stop last", "/subagents stop last"),
        ("/stop", "/stop"),
        ("/stop turn", "/stop turn"),
        ("/retinue nonsense", "/nonsense"),
        ("!retinue model small", "/model small"),
        ("/retinue usage", "/usage"),
        ("/retinue undo", "/undo"),
        ("!retinue undo last", "/undo last"),
        ("!undo 3fa9c1", "/undo 3fa9c1"),
        ("/retinue agents", "/subagents agents"),
        ("!subagents agents", "/subagents agents"),
        ("subagents agents", "/subagents agents"),
    ],
)
def test_a_command_may_be_typed_with_a_slash_an_exclamation_mark_or_nothing(
    typed: str, command: str
) -> None:
    assert read(typed) == command


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "Hello",
        "!important: read this",
        "! subagents",
        "subagents are a fine thing, list some",
        "subagents stop working when I close the lid, why?",
        "help",
        "new shoes",
        "What does /subagents list do?",
    ],
)
def test_talk_is_no_command(typed: str) -> None:
    assert COMMANDS.find(typed) is None


@given(st.text())
def test_whatever_begins_with_a_slash_is_a_command(typed: str) -> None:
    assert COMMANDS.find(f"/{typed}") is not None


@pytest.mark.parametrize(
    ("typed", "opens", "changes"),
    [
        ("/Subagents  SPAWN Count", True, True),
        ("/subagent spawn Count", True, True),
        ("/model small", True, True),
        ("/model", False, False),
        ("/subagents list", False, False),
        ("/subagents kill last", False, True),
        ("/subagents info last", False, False),
        ("/new", False, True),
        ("/stop", False, True),
        ("/undo", False, False),
        ("/undo list sheep", False, False),
        ("/undo last", False, True),
    ],
)
def test_only_a_command_that_changes_something_may_need_a_conversation(
    typed: str, *, opens: bool, changes: bool
) -> None:
    found = COMMANDS.find(typed)

    assert found is not None
    assert found.command is not None
    assert (found.command.opens and found.changes, found.changes) == (opens, changes)


@pytest.mark.parametrize(
    ("line", "exact"),
    [
        ("/new", True),
        ("/new undo", True),
        ("/new what is this?", False),
        ("/subagents stop last", True),
        ("/subagents stop the one that counts all of the hens", False),
        ("/subagents spawn Count all of the hens, please", True),
        ("/nothing", True),
        ("/nothing like this", False),
    ],
)
def test_a_command_with_words_that_it_does_not_take_is_not_exact(line: str, exact: bool) -> None:
    typed = COMMANDS.find(line)

    assert typed is not None
    assert typed.exact is exact


def test_a_command_that_changes_something_refuses_words_that_it_does_not_take() -> None:
    new = COMMANDS.get(CommandGroup.CHAT, "new")
    assert new is not None

    assert new.parse("undo") == {"undo": "undo"}
    with pytest.raises(BadRequestError, match="Usage: /retinue new"):
        new.parse("please explain this")
