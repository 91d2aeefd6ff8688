"""What the terminal says in its own words, and how it names things (pure)."""

import re

from bot.agent.sanitizer import one_line
from bot.platforms.base import Announcement, Confirmation
from bot.platforms.terminal.people import DEFAULT_NAME
from bot.values import Identity, short

REPEATED = "This may be a repetition: it is not known whether it reached you before."

OWN_HELP = """

**At this terminal**

- `/as NAME`: be another person; everyone has runs, limits and a conversation of their own
- `/stop` or Ctrl-C: stop the answer under way
- `yes`, `no`, `/yes ID`, `/no ID`: answer a question
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
    going = [f"{runs} run{'' if runs == 1 else 's'}"] if runs else []
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


def number_of(question: Confirmation) -> str:
    """Return the part of a question's id that people type: its end, since ids begin with a time."""
    return question.id[-6:]


def answer_hint(confirmation: Confirmation) -> str:
    """Return how a question can be answered, and until when."""
    number = number_of(confirmation)
    minutes = max(1, round(confirmation.expires_in_seconds / 60))
    return (
        f"Type yes or no (or /yes {number}, /no {number}). "
        f"Without an answer in {minutes} min it is a no."
    )


def which_question(questions: list[Confirmation], *, yes: bool) -> str:
    """Return what to type when several questions are open, in Markdown."""
    word = "yes" if yes else "no"
    choices = ", ".join(f"`/{word} {number_of(question)}`" for question in questions)
    return f"{len(questions)} questions wait for you: say which with {choices}."
