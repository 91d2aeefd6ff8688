"""Things that the tests of the terminal say and show."""

import uuid

from bot.platforms.base import (
    NO,
    YES,
    Announcement,
    CardStep,
    Choice,
    Confirmation,
    RunCard,
    Weight,
)
from bot.platforms.terminal.people import identity_of, place_of
from bot.values import Identity, RunStatus, StepState, Stopper

RUN = "1a2b3c4d-0000-4000-8000-000000000001"
#: Whether a run may use a tool.
ALLOW = (
    Choice("yes", "Allow once", Weight.GOOD),
    Choice("all", "Allow for this run", Weight.GOOD),
    Choice("no", "Deny", Weight.BAD),
)
#: What a run asks its user.
OPTIONS = (Choice("1", "Euros"), Choice("2", "Pounds [red]\x1b[2J"), Choice("skip", "Skip"))


def card(
    name: str = "alice",
    *,
    run_id: str = RUN,
    label: str = "news",
    status: RunStatus = RunStatus.RUNNING,
    line: str = "",
    tool: str = "",
    steps: tuple[CardStep, ...] = (),
    awaited: bool = False,
) -> RunCard:
    owner = identity_of(name)
    return RunCard(
        run_id=run_id,
        owner=owner,
        place=place_of(owner),
        label=label,
        agent="general",
        status=status,
        elapsed_seconds=42,
        tool=tool,
        tool_calls=5,
        tokens=12_345,
        token_budget=50_000,
        line=line,
        steps=steps,
        awaited=awaited,
    )


def steps(*states: StepState) -> tuple[CardStep, ...]:
    """Return one call of `grep` for each state."""
    return tuple(CardStep("grep", state, f"{n}.0") for n, state in enumerate(states))


def announcement(
    name: str = "alice",
    *,
    key: str = RUN,
    title: str = "news completed",
    text: str = "There is some.",
    footer: str = "",
    maybe_repeated: bool = False,
    stopped_by: Stopper | None = None,
) -> Announcement:
    owner = identity_of(name)
    return Announcement(
        key=key,
        place=place_of(owner),
        owner=owner,
        title=title,
        text=text,
        footer=footer,
        maybe_repeated=maybe_repeated,
        stopped_by=stopped_by,
        results=((key, text),) if key == RUN else (),
    )


def question(
    name: str = "alice",
    *,
    text: str = "Shall I delete it?",
    seconds: float = 600,
    choices: tuple[Choice, ...] = (YES, NO),
    open_ended: bool = False,
) -> Confirmation:
    owner = identity_of(name)
    return Confirmation(
        id=str(uuid.uuid4()),
        owner=owner,
        place=place_of(owner),
        text=text,
        expires_in_seconds=seconds,
        choices=choices,
        open_ended=open_ended,
    )


def person(name: str = "alice") -> Identity:
    return identity_of(name)
