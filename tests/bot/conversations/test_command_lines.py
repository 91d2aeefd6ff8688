"""What counts as a command, the words after `/subagents spawn`, and what `usage` says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.conversations.command_lines import belongs_to_a_conversation, command_in, parse_spawn
from bot.conversations.run_lines import usage_text
from bot.errors import BadRequestError
from bot.subagents.limits import SubagentSettings
from bot.subagents.requests import RunRequest
from bot.subagents.usage import UsageReport


def test_words_without_options_are_the_task() -> None:
    assert parse_spawn("Count the sheep -- all of them") == RunRequest(
        task="Count the sheep -- all of them"
    )


def test_options_stand_before_the_task() -> None:
    request = parse_spawn(
        "--agent explore --label 'black sheep' --model=small --provider openai --budget 9000 "
        '--minutes 3 --steps 7 --announce "silent" Count --all of them'
    )

    assert request == RunRequest(
        task="Count --all of them",
        agent="explore",
        label="black sheep",
        model="small",
        provider="openai",
        token_budget=9000,
        timeout_minutes=3,
        max_turns=7,
        announce="silent",
    )


def test_a_task_keeps_its_lines() -> None:
    assert parse_spawn("--label x\nOne.\n  Two.").task == "One.\n  Two."


def test_an_option_is_known_however_it_is_written() -> None:
    assert parse_spawn("--LABEL x Count.").label == "x"


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
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(words: str, said: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        parse_spawn(words)

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
        request = parse_spawn(words)
    except BadRequestError as error:
        text = str(error)
    else:
        text = ""
        assert words.endswith(request.task)
        assert not request.task.startswith("--") or "-- " in words
    assert len(text) < 300


values = st.text("abcÄé123 -=", min_size=1, max_size=20)


@given(label=values, budget=st.integers(0, 10**9 - 1), task=st.text("abc -\n", min_size=1))
def test_what_is_quoted_arrives_as_it_is(label: str, budget: int, task: str) -> None:
    request = parse_spawn(f'--label "{label}" --budget {budget} x{task}')

    assert (request.label, request.token_budget, request.task) == (label, budget, f"x{task}")


def report(people: int | None = None) -> UsageReport:
    return UsageReport(
        settings=SubagentSettings(),
        started=4,
        running=2,
        queued=1,
        running_global=7,
        tokens_today=123_456,
        runs_today=9,
        people=people,
    )


def test_usage_tells_what_is_used_of_what_there_is() -> None:
    text = usage_text(report())

    assert "Runs started in the last 1 h: 4 of 10" in text
    assert "Running: 2 of 3" in text
    assert "Waiting: 1 of 5" in text
    assert "Last 24 hours: 9 runs, 123,456 tokens" in text
    assert "One run: 50,000 tokens (at most 200,000), 5 min (at most 10)" in text
    assert "Everyone" not in text


def test_only_an_admins_usage_tells_of_everyone() -> None:
    assert "Everyone: 7 of 10 slots taken, 12 people" in usage_text(report(people=12))


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("/subagents list", "/subagents list"),
        ("  /Help me ", "/Help me"),
        ("!subagents stop 1a2b", "/subagents stop 1a2b"),
        ("!new", "/new"),
        ("subagents", "/subagents"),
        ("Subagents list all", "/Subagents list all"),
        ("subagents send 1a2b look at the barn too", "/subagents send 1a2b look at the barn too"),
        ("subagents spawn Count the sheep", "/subagents spawn Count the sheep"),
        ("/retinue", "/help"),
        ("/retinue help", "/help"),
        ("/retinue new", "/new"),
        ("/retinue stop", "/stop"),
        ("/retinue stop last", "/subagents stop last"),
        ("!retinue model small", "/model small"),
        ("/retinue usage", "/subagents usage"),
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
    assert command_in(typed) == command


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
    assert command_in(typed) == ""


@given(st.text())
def test_whatever_is_typed_a_command_begins_with_a_slash(typed: str) -> None:
    assert command_in(typed) == "" or command_in(typed).startswith("/")


def test_a_run_and_a_choice_of_a_model_belong_to_a_conversation() -> None:
    assert belongs_to_a_conversation("/Subagents  SPAWN Count")
    assert belongs_to_a_conversation("/subagent spawn Count")
    assert belongs_to_a_conversation("/model small")
    assert not belongs_to_a_conversation("/model")
    assert not belongs_to_a_conversation("/subagents list")


def test_two_dashes_end_the_options() -> None:
    request = parse_spawn("--agent explore -- --label is what I want explained")

    assert request == RunRequest(agent="explore", task="--label is what I want explained")
