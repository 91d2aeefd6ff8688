"""The terminal's own texts, labels and hints (pure)."""

from bot.agent.sanitizer import one_line
from bot.platforms.base import NO, YES, Announcement, Choice, Confirmation, Settlement
from bot.platforms.messaging.texts import LONGEST_LABEL, MOST_TO_PICK, alternatives
from bot.platforms.terminal.people import DEFAULT_NAME
from bot.run_texts import counted
from bot.values import Identity, short

REPEATED = "This may be a repetition: it is not known whether it reached you before."

OWN_HELP = """

**At this terminal**

- `/as NAME`: be another user; every user has runs, limits and a conversation of their own
- `/stop` or Ctrl-C: stop the answer under way
- `yes`, `all`, `no`, `/yes ID`, `/all ID`, `/always ID`, `/no ID`: answers; some take any text
- Alt-Enter: a new line inside a message
- `/quit` or Ctrl-D: leave; what is going on is resumed at the next start
"""


def welcome(user: Identity, model_name: str) -> str:
    """Return the welcome text, in Markdown."""
    return f"""**Retinue** · you are **{user.account}**, talking with {model_name}. Try:

- What can you do?
- Find out in the background what is new in Python 3.14, and tell me when you are done.
- `/subagents list`

`/help` lists the commands, Ctrl-D leaves."""


def farewell(runs: int, *, answering: bool) -> str:
    """Return the note about unfinished runs and answers; empty if there are none."""
    going = [counted(runs, "run")] if runs else []
    going += ["an answer"] if answering else []
    if not going:
        return ""
    verb = "is" if runs + answering == 1 else "are"
    return (
        f"{' and '.join(going).capitalize()} {verb} still going: resumed at the next start, "
        "nothing is lost."
    )


def prompt_of(user: Identity | None) -> str:
    """Return the prompt, with the user's name unless it is the default; empty without a user."""
    if user is None:
        return ""
    return "> " if user.account == DEFAULT_NAME else f"{user.account}> "


def title_of(announcement: Announcement) -> str:
    """Return the one-line title of an announcement; a run's includes the run's short id."""
    title = one_line(announcement.title)
    if len(announcement.results) != 1:
        return title
    [(run_id, _)] = announcement.results
    number = "" if short(run_id) in title else f" ({short(run_id)})"
    return f"Subagent Result: {title}{number}" if title else f"Subagent Result{number}"


def footer_of(announcement: Announcement) -> str:
    """Return the footer of an announcement; empty for none."""
    stopper = announcement.stopped_by
    lines = [f"Stopped by @{one_line(stopper.name, 60)}."] if stopper else []
    lines += [f"{each.line} – {each.choice.label}" for each in announcement.buttons]
    return "\n".join(line for line in (*lines, announcement.footer) if line)


def number_of(question: Confirmation) -> str:
    """Return the part of a question's id that users type: the end, since ids begin with a time."""
    return question.id[-6:]


def label_of(choice: Choice) -> str:
    """Return the label of a choice, on one line."""
    return one_line(choice.label, LONGEST_LABEL) or choice.key


def choice_lines(confirmation: Confirmation) -> list[tuple[Choice, str]]:
    """Return the choices with their display lines; empty for a plain yes-or-no question."""
    if confirmation.choices == (YES, NO):
        return []
    choices = confirmation.choices[:MOST_TO_PICK]
    return [(each, f"{each.key}: {label_of(each)}") for each in choices]


def words_for(confirmation: Confirmation) -> str:
    """Return the list of words that answer a question."""
    keys = [each.key for each in confirmation.choices[:MOST_TO_PICK]]
    if not confirmation.open_ended:
        return alternatives(keys)
    numbers = ["the number"] if any(key.isdigit() for key in keys) else []
    return alternatives([*numbers, "any text", *(key for key in keys if not key.isdigit())])


def answer_hint(confirmation: Confirmation) -> str:
    """Return the hint below a question: the accepted answers and the time left."""
    minutes = max(1, round(confirmation.expires_in_seconds / 60))
    type_that = f"Type {words_for(confirmation)}"
    if confirmation.open_ended:
        return f"{type_that}. The question ends in {minutes} min."
    number = number_of(confirmation)
    ways = [f"/{each.key} {number}" for each in confirmation.choices[:MOST_TO_PICK]]
    return f"{type_that} (or {', '.join(ways)}). No answer within {minutes} min counts as no."


def unanswered(question: Confirmation, settlement: Settlement) -> str:
    """Return the note about a question that was settled without an answer, in Markdown."""
    return f"Question {number_of(question)}: {settlement.chosen}"


def which_question(questions: list[Confirmation], word: str) -> str:
    """Return the error for an ambiguous answer to several open questions, in Markdown."""
    choices = ", ".join(f"`/{word} {number_of(question)}`" for question in questions)
    return f"{len(questions)} questions wait for you: say which with {choices}."


def not_offered(question: Confirmation, word: str) -> str:
    """Return the error for a word that is not a choice of the question."""
    return f"Question {number_of(question)} cannot be answered with {word}: {answer_hint(question)}"
