"""The subjects of calls, spelled so that no other spelling bypasses a rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.permissions import Decision, Permissions, read_rules
from bot.agent.subjects import HIDDEN, argument, commands, commands_in, path, spelled

ONLY_GIT = Permissions(read_rules({"shell": "ask", "shell:git *": "allow"}))
NO_SECRETS = Permissions(read_rules({"file_read:secret/*": "deny"}))


@pytest.mark.parametrize(
    ("given_path", "top"),
    [
        ("notes/a.txt", "notes/a.txt"),
        ("./notes//a.txt", "notes/a.txt"),
        ("/notes/a.txt", "notes/a.txt"),
        ("x/../notes/./a.txt", "notes/a.txt"),
        ("../../notes/a.txt", "notes/a.txt"),
        ("notes\\a.txt", "notes\\a.txt"),
        (" notes/a.txt ", " notes/a.txt "),
        ("", "."),
        ("/", "."),
    ],
)
def test_a_path_has_one_spelling(given_path: str, top: str) -> None:
    assert path("path")({"path": given_path}) == (top,)


@pytest.mark.parametrize(
    "around", ["secret/key", "./secret/key", "/secret//key", "a/../secret/key"]
)
def test_a_rule_about_a_folder_holds_however_its_path_is_written(around: str) -> None:
    verdict = NO_SECRETS.decide("file_read", path("path")({"path": around}), harmless=True)

    assert verdict.decision is Decision.DENY


@given(st.text())
def test_any_text_becomes_a_path_that_stays_inside(text: str) -> None:
    found = spelled(text)

    assert found == spelled(found)
    assert ".." not in found.split("/")
    assert not found.startswith("/")


@pytest.mark.parametrize("script", ["git status", "git  log", "g'i't push", "git log x#1"])
def test_a_command_that_is_allowed_is_allowed(script: str) -> None:
    verdict = ONLY_GIT.decide("shell", commands_in(script), harmless=False)

    assert verdict.decision is Decision.ALLOW


@pytest.mark.parametrize(
    "script",
    [
        "rm -rf x",
        "git status; rm x",
        "git status && rm x",
        "git status || rm x",
        "git status | rm x",
        "git status |& rm x",
        "git status & rm x",
        "git status\nrm x",
        "git status&rm x",
        "(git status; rm x)",
        "git status \\\n; rm x",
        "git log $(rm x)",
        "git log `rm x`",
        'git log "$(rm x)"',
        "git log <(rm x)",
        "git log > ~/.bashrc",
        "git log>x",
        "git commit -F - <<E\nx\nE",
        "if true; then rm x; fi",
        "for f in *; do rm $f; done",
        "{ rm x; }",
        "! rm x",
        "X=1 rm x",
        "git log 'unclosed",
        "git log ${x:=$(rm x)}",
        "git log $'a\\n'; rm x",
        "GIT_PAGER=rm git log",
        "git log x#; touch y",
        "git log a ;> x touch y",
        "git log a;</dev/null touch y",
        "git log a |(>x touch y)",
        "git log a ;>&2 touch y",
        "git log a |&> x touch y",
        "git log a >| x",
        "git log a \\\\\ntouch y",
        "git log a # \\\ntouch y",
    ],
)
def test_a_rule_that_allows_some_commands_lets_no_other_slip_through(script: str) -> None:
    verdict = ONLY_GIT.decide("shell", commands_in(script), harmless=False)

    assert verdict.decision is Decision.ASK


def test_a_rule_that_forbids_a_command_finds_it_among_others() -> None:
    rules = Permissions(read_rules({"shell:rm *": "deny"}))

    for script in ("rm x", "ls; rm x", "ls && rm  x", "(rm x)"):
        assert rules.decide("shell", commands_in(script), harmless=False).decision is Decision.DENY


@given(st.text())
def test_any_script_is_about_something(text: str) -> None:
    assert commands_in(text)


def test_what_cannot_be_known_is_only_for_rules_about_everything() -> None:
    allowed = Permissions(read_rules({"shell": "allow"}), default=Decision.DENY)

    assert allowed.decide("shell", (HIDDEN,), harmless=False).decision is Decision.ALLOW


def test_an_argument_stands_for_itself() -> None:
    assert argument("url")({"url": "https://example.org"}) == ("https://example.org",)
    assert argument("url")({}) == ("",)
    assert commands("command")({}) == ("",)


def test_in_a_pattern_only_the_star_and_the_question_mark_mean_something() -> None:
    rules = Permissions(read_rules({"web_fetch:https://[::1]/*": "deny"}))

    assert rules.decide("web_fetch", ["https://[::1]/x"], harmless=True).decision is Decision.DENY
