"""A subagent of the offline demo: a few steps with the tools that it has, and a report."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from bot.agent.messages import Answer, Message, ToolResults, UserMessage
from bot.models.offline_moves import Move, Wish, calls_so_far, final, label_of

_FROM_PERSON = re.compile(r"A message from the user:\n(.+?)(?=\n\n|\Z)", re.DOTALL)
_LONGEST_QUOTE = 160

#: Number of `note_list` steps of a run, and the paces of each: long enough for the user to message
#: or stop the run. A delegated task has few tools and ends quickly.
LOOKS = 7
PACES = 10

#: The steps of a run, in order: the text, and the wish by task. Steps whose tool is missing are
#: skipped.
STEPS: tuple[tuple[str, Callable[[str], Wish]], ...] = (
    (
        "I read the task.",
        lambda task: Wish("report_progress", {"message": f"Reading the task: {label_of(task)}"}),
    ),
    (
        "I write down a plan.",
        lambda task: Wish(
            "whiteboard_write", {"key": "plan", "value": f"Look around, then report on: {task}"}
        ),
    ),
    (
        "I look into the notes.",
        lambda task: Wish("note_search", {"query": label_of(task)}),
    ),
    (
        "I look at the clock.",
        lambda _: Wish("current_time"),
    ),
    *(
        (
            f"I take look number {number}.",
            lambda _, number=number: Wish("note_list", {"page": number}),
        )
        for number in range(1, LOOKS + 1)
    ),
    (
        "Half of it is done.",
        lambda task: Wish("report_progress", {"message": f"Writing about {label_of(task)}"}),
    ),
    (
        "I look at my plan again.",
        lambda _: Wish("whiteboard_read", {"key": "plan"}),
    ),
)


def move(messages: Sequence[Message], tools: frozenset[str], *, tools_allowed: bool) -> Move:
    """Return a run's next step, or its report after the last step."""
    task = task_of(messages)
    steps = [(text, wish) for text, make in STEPS if (wish := make(task)).tool in tools]
    taken = calls_so_far(messages)
    if not tools_allowed or taken >= len(steps):
        return final(_report(task, messages, finished=taken >= len(steps)))
    text, wish = steps[taken]
    heard = _heard(messages[-1:]) if len(messages) > 1 else []
    if heard:
        text = f"Your message arrived: “{heard[-1]}”. I will work it in. {text}"
    return Move(text, (wish,), PACES if wish.tool == "note_list" else 1)


def task_of(messages: Sequence[Message]) -> str:
    """Return the task from a run's first message, without the context before it."""
    first = next((m.text for m in messages if isinstance(m, UserMessage)), "")
    return first.rpartition("Task:\n")[2].strip() or "nothing in particular"


def _heard(messages: Sequence[Message]) -> list[str]:
    """Return the user's messages to the run, shortened to a line each."""
    heard: list[str] = []
    for message in messages:
        match message:
            case ToolResults(_, note):
                heard += _FROM_PERSON.findall(note)
            case UserMessage(text):
                heard += _FROM_PERSON.findall(text)
    return [_short(text) for text in heard]


def _report(task: str, messages: Sequence[Message], *, finished: bool) -> str:
    answers = [message for message in messages if isinstance(message, Answer)]
    often = Counter(call.name for answer in answers for call in answer.calls)
    used = [name if times == 1 else f"{name} × {times}" for name, times in often.items()]
    title = label_of(task)
    lines = [
        f"## {title[:1].upper()}{title[1:]}",
        "",
        f"- The task was: {_short(task)}",
        f"- I took {len(answers)} steps to show you how a run moves.",
        *_findings(messages),
        *(f"- While I worked you wrote: “{text}”. I kept to it." for text in _heard(messages)),
    ]
    if not finished:
        lines.append("- I had to stop early: what is missing here was not done.")
    return "\n".join([*lines, "", "```text", *(used or ["no tools were used"]), "```"])


def _findings(messages: Sequence[Message]) -> list[str]:
    """Return a line for each result of `note_search` and `current_time`."""
    told = {
        result.call_id: result.text
        for message in messages
        if isinstance(message, ToolResults)
        for result in message.results
    }
    names = {"note_search": "The notes say", "current_time": "The clock says"}
    return [
        f"- {names[call.name]}: {_short(told[call.id])}"
        for message in messages
        if isinstance(message, Answer)
        for call in message.calls
        if call.name in names and call.id in told
    ]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_QUOTE else line[: _LONGEST_QUOTE - 1].rstrip() + "…"
