"""What the terminal says in its own words, and how it names things (pure)."""

import re

from bot.agent.sanitizer import one_line
from bot.platforms.base import NO, YES, Announcement, Choice, Confirmation, Settlement
from bot.platforms.terminal.people import DEFAULT_NAME
from bot.platforms.wording import LONGEST_LABEL, MOST_TO_PICK, one_of
from bot.run_texts import counted
from bot.values import Identity, short

REPEATED = "This may be a repetition: it is not known whether it reached you before."

OWN_HELP = """

**At this terminal**

- `/as NAME`: be another person; everyone has runs, limits and a conversation of their own
- `/stop` or Ctrl-C: stop the answer under way
- `yes`, `all`, `no`, `/yes ID`, `/all ID`, `/no ID`: answer a question; some take any text
- Alt-Enter: a new line inside a message
- `/quit` or Ctrl-D: leave; what is going on is resumed at the next start
"""

_RUN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def welcome(user: Identity, model_name: str) -> str:
    """Return what a person reads first, in Markdown."""
    return f"""**Retinue** · you are **{user.account}**, talking with {model_name}. Try:

- What can you do?
- Find out in the background what is new in Python 3.14, and tell me when you are done.
- `/subagents list`

`/help` lists the commands, Ctrl-D leaves."""


def farewell(runs: int, *, answering: bool) -> str:
    """Return the last words; empty when nothing is going on."""
    going = [counted(runs, "run")] if runs else []
    going += ["an answer"] if answering else []
    if not going:
        return ""
    verb = "is" if runs + answering == 1 else "are"
    return (
        f"{' and '.join(going).capitalize()} {verb} still going: resumed at the next start, "
        "nothing is lost."
    )


def prompt_of(user: Identity) -> str:
    """Return what stands before the line being typed: who you are, unless you did not say."""
    return "> " if user.account == DEFAULT_NAME else f"{user.account}> "


def run_id_in(key: str) -> str:
    """Return the id of the run that an announcement is about; empty when it is about none."""
    found = _RUN_ID.search(key)
    return found.group() if found else ""


def title_of(announcement: Announcement) -> str:
    """Return the heading of an announcement, on one line; a run's says so and carries its id."""
    title = one_line(announcement.title)
    run_id = run_id_in(announcement.key)
    if not run_id:
        return title
    number = "" if short(run_id) in title else f" ({short(run_id)})"
    return f"Subagent Result: {title}{number}" if title else f"Subagent Result{number}"


def footer_of(announcement: Announcement) -> str:
    """Return the quiet lines below an announcement; empty for none."""
    stopper = announcement.stopped_by
    lines = [f"Stopped by @{one_line(stopper.name, 60)}."] if stopper else []
    return "\n".join(line for line in (*lines, announcement.footer) if line)


def number_of(question: Confirmation) -> str:
    """Return the part of a question's id that people type: its end, since ids begin with a time."""
    return question.id[-6:]


def label_of(choice: Choice) -> str:
    """Return what a person reads of a choice, on one line."""
    return one_line(choice.label, LONGEST_LABEL) or choice.key


def choice_lines(confirmation: Confirmation) -> list[tuple[Choice, str]]:
    """Return what may be picked, and how it is shown; nothing where `yes` and `no` say it all."""
    if confirmation.choices == (YES, NO):
        return []
    choices = confirmation.choices[:MOST_TO_PICK]
    return [(each, f"{each.key}: {label_of(each)}") for each in choices]


def words_for(confirmation: Confirmation) -> str:
    """Return which words answer a question."""
    keys = [each.key for each in confirmation.choices[:MOST_TO_PICK]]
    if not confirmation.open_ended:
        return one_of(keys)
    numbers = ["the number"] if any(key.isdigit() for key in keys) else []
    return one_of([*numbers, "any text", *(key for key in keys if not key.isdigit())])


def answer_hint(confirmation: Confirmation) -> str:
    """Return how a question can be answered, and until when."""
    minutes = max(1, round(confirmation.expires_in_seconds / 60))
    type_that = f"Type {words_for(confirmation)}"
    if confirmation.open_ended:
        return f"{type_that}. The question ends in {minutes} min."
    number = number_of(confirmation)
    ways = [f"/{each.key} {number}" for each in confirmation.choices[:MOST_TO_PICK]]
    return f"{type_that} (or {', '.join(ways)}). No answer within {minutes} min counts as no."


def unanswered(question: Confirmation, settlement: Settlement) -> str:
    """Return that a question waits no more, in Markdown."""
    return f"Question {number_of(question)}: {settlement.chosen}"


def which_question(questions: list[Confirmation], word: str) -> str:
    """Return what to type when several questions are open, in Markdown."""
    choices = ", ".join(f"`/{word} {number_of(question)}`" for question in questions)
    return f"{len(questions)} questions wait for you: say which with {choices}."


def not_offered(question: Confirmation, word: str) -> str:
    """Return what to type instead of a word that does not answer a question."""
    return f"Question {number_of(question)} cannot be answered with {word}: {answer_hint(question)}"
