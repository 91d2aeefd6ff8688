"""A demo model that answers by a few rules, without a language model and without a key."""

import asyncio
import html
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from bot.agent.messages import (
    Answer,
    Message,
    StopReason,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    estimate_tokens,
)
from bot.models.base import ModelRequest, OnText
from bot.models.client import estimated_input
from bot.run_texts import counted
from bot.values import Json, Settings

MODEL = "offline-demo"
PIECES = 6
SIGNATURE = "_(offline demo: no language model is connected)_"
_TEXTS = tomllib.loads(Path(__file__).with_name("offline.toml").read_text(encoding="utf-8"))
HELP: str = _TEXTS["help"]

_LONGEST_QUOTE = 160
#: Number of `note_list` steps of a run, and the paces of each: long enough for the user to message
#: or stop the run. A delegated task has few tools and ends quickly.
_LOOKS, _LOOK_PACES = 7, 10
_VERBS = ("research", "compare", "check", "explore", "summarise", "summarize", "study", "write")
_LEADING = {"research", "study", "look", "up", "find", "out", "about", "the", "a", "an", "on"}
_ATTRIBUTED = re.compile(r"<message [^<>]*>\n(?P<body>.*)\n</message>", re.DOTALL)
#: The facts about a run from which a sentence about progress is written.
_ABOUT_RUNS = re.compile(r"^Run (“[^”]*”): [^\n]* of work\.$", re.MULTILINE)
_FILE = re.compile(r'<user_file name="([^"]*)"')
_CALL_ID = re.compile(r"call_(\d+)")
_RESULT = re.compile(r"<subagent_result[^>]*>\s*(.*?)\s*</subagent_result>", re.DOTALL)
_MESSAGE = re.compile(r"A message from the user:\n(.+?)(?=\n\n|\Z)", re.DOTALL)

#: Tool and pattern of each rule, tried in order; the named groups are arguments of the tool.
_START = r"^(?:please\s+|could you\s+|can you\s+)?"
RULES = [
    (rule["tool"], re.compile(_START + rule["pattern"], re.IGNORECASE | re.DOTALL))
    for rule in _TEXTS["rules"]
]


class OfflineSettings(Settings):
    """Everything under `models.offline:`."""

    pace_seconds: float = Field(0.5, ge=0, le=60)
    """The seconds that the demo takes for a step, so that one sees it; each look of a run at its
    notes takes ten times as long.
    """

    configured: ClassVar[bool] = True
    needed: ClassVar[str] = ""
    environment: ClassVar[Mapping[str, str]] = {}
    main_model: ClassVar[str] = MODEL
    subagent_model: ClassVar[str] = MODEL
    endpoint: ClassVar[tuple[str, dict[str, str]]] = ("", {})


@dataclass(frozen=True, slots=True)
class DemoStep:
    """One answer of the demo: a text and calls. An answer without calls is the final reply.

    Attributes:
        calls: The names of the tools, each with the arguments.
        paces: Duration of the answer, in units of `OfflineSettings.pace_seconds`.
    """

    text: str
    calls: tuple[tuple[str, Json], ...] = ()
    paces: int = 1


class OfflineModel:
    """Answers by rules, which get the prompt, the messages and the tools like a language model."""

    def __init__(self, settings: OfflineSettings) -> None:
        self._pace_seconds = settings.pace_seconds

    async def count(self, request: ModelRequest) -> int | None:
        """Return `None`: no provider counts the tokens of the demo."""
        return None

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        """Return the rules' answer to the request; see `bot.models.base.Model`."""
        step = decide(request)
        seconds = self._pace_seconds * step.paces / PIECES
        for piece in range(1, PIECES + 1):
            await asyncio.sleep(seconds)
            if on_text is not None and step.text:
                on_text(step.text[: -(-len(step.text) * piece // PIECES)])
        schemas = {tool.name: tool.schema.get("properties", {}) for tool in request.tools}
        calls = tuple(
            ToolCall(
                f"call_{number}",
                name,
                {key: value for key, value in arguments.items() if key in schemas[name]},
            )
            for number, (name, arguments) in enumerate(step.calls, _calls(request.messages) + 1)
        )
        written = estimate_tokens(step.text + "".join(str(call) for call in calls))
        return Answer(
            text=step.text,
            calls=calls,
            stop=StopReason.TOOL_CALLS if calls else StopReason.END,
            usage=Usage(estimated_input(request), written),
            model=request.model,
        )


def decide(request: ModelRequest) -> DemoStep:
    """Return the answer to a request by the rules of the main agent or of a run."""
    tools = {tool.name for tool in request.tools}
    messages = request.messages
    if "You are a subagent" in request.prompt:
        return _work(messages, tools if request.tools_allowed else set())
    if messages and isinstance(messages[-1], ToolResults):
        calls = {call.id: call for call in _all_calls(messages)}
        lines = [
            _about(calls.get(each.call_id, ToolCall(each.call_id, "It")), each)
            for each in messages[-1].results
        ]
        return _final("\n".join(lines if len(lines) == 1 else [f"- {line}" for line in lines]))
    if runs := _ABOUT_RUNS.findall(_newest(messages)):
        return _final(f"Still working on {' and '.join(runs)}.")
    files, _, words = _newest(messages).rpartition("</user_file>")
    names = [html.unescape(name) for name in _FILE.findall(files)]
    step = _obey(words.strip(), tools if request.tools_allowed else set())
    if not names:
        return step
    seen = f"I see {counted(len(names), 'file')}: {', '.join(names)}."
    return DemoStep(f"{seen}\n\n{step.text}".strip(), step.calls)


def _newest(messages: Sequence[Message]) -> str:
    """Return the newest text of a user, as it was sent."""
    texts = (
        message.text.rpartition("</situation>")[2].strip()
        for message in reversed(messages)
        if isinstance(message, UserMessage)
    )
    newest = next(filter(None, texts), "")
    attributed = _ATTRIBUTED.fullmatch(newest)
    return html.unescape(attributed["body"]) if attributed else newest


def _obey(words: str, tools: set[str]) -> DemoStep:
    """Return the answer to a user's text by the first rule that matches it."""
    if "<subagent_result" in words:
        return _final(f"Your runs have ended. They report:\n\n{_findings(words)}")
    for tool, pattern in RULES:
        match = pattern.search(words)
        if match is None:
            continue
        if tool not in tools:
            return _final(f"For that I would need the tool `{tool}`, which I cannot use.")
        given: Json = {key: value.strip() for key, value in match.groupdict().items() if value}
        tasks = [given]
        if tool == "sessions_spawn":
            found = [f"{given['verb']} {given['task']}"] if "verb" in given else _tasks(**given)
            tasks = [{"task": task, "label": label_of(task)} for task in found]
        elif tool == "delegate_to_subagent":
            needed = [name for name in ("note_search", "current_time") if name in tools]
            tasks = [given | {"tools_needed": needed, "worker_name": label_of(given["task"])}]
        return DemoStep("", tuple((tool, arguments) for arguments in tasks))
    return _final(HELP)


def _tasks(task: str) -> list[str]:
    """Return the tasks in a sentence, at most five: `research tea and coffee` contains two."""
    several = [part for part in re.split(r"\s*[;\n]\s*", task.strip(" .!?")) if part]
    verb, _, rest = task.strip(" .!?").partition(" ")
    if len(several) > 1 or verb.lower() not in _VERBS:
        return several[:5]
    parts = [part for part in re.split(r",?\s+and\s+|,\s*", rest) if part]
    return [part if part.lower().startswith(_VERBS) else f"{verb} {part}" for part in parts[:5]]


def _about(call: ToolCall, result: ToolResult) -> str:
    """Return a sentence for the user about the result of a call."""
    text, label = html.unescape(result.text), f"“{call.arguments.get('label') or call.name}”"
    if result.failed:
        return f"{label} did not work: {text}"
    match call.name:
        case "sessions_spawn":
            try:
                spawned = json.loads(result.text)
                run_id, waits = spawned["run_id"][:8], spawned["status"] == "queued"
            except (ValueError, LookupError, TypeError):
                return f"{label} was not started: {text}"
            if waits:
                return f"Run `{run_id}` ({label}) waits for a free place."
            return f"Run `{run_id}` ({label}) has started. I will announce its result here."
        case "delegate_to_subagent":
            return f"The subagent reports:\n\n{_findings(result.text)}"
        case "note_save":
            return f"I made a note of it. {text}"
        case "sessions_stop" if "confirmation_asked" in text:
            return "Before I stop it, please confirm."
    return text or "There is nothing."


def _work(messages: Sequence[Message], tools: set[str]) -> DemoStep:
    """Return a run's next step, or its report after the last step or without tools."""
    first = next((m.text for m in messages if isinstance(m, UserMessage)), "")
    task = first.rpartition("Task:\n")[2].strip() or "nothing in particular"
    label = label_of(task)
    plan = f"Look around, then report on: {task}"
    steps: list[tuple[str, str, Json]] = [
        ("I read the task.", "report_progress", {"message": f"Reading the task: {label}"}),
        ("I write down a plan.", "whiteboard_write", {"key": "plan", "value": plan}),
        ("I look into the notes.", "note_search", {"query": label}),
        ("I look at the clock.", "current_time", {}),
        *(
            (f"I take look number {number}.", "note_list", {"page": number})
            for number in range(1, _LOOKS + 1)
        ),
        ("Half of it is done.", "report_progress", {"message": f"Writing about {label}"}),
        ("I look at my plan again.", "whiteboard_read", {"key": "plan"}),
    ]
    steps = [step for step in steps if step[1] in tools]
    taken = _calls(messages)
    if taken < len(steps):
        text, tool, arguments = steps[taken]
        if received := _received(messages[1:][-1:]):
            text = f"Your message arrived: “{received[-1]}”. I will work it in. {text}"
        return DemoStep(text, ((tool, arguments),), _LOOK_PACES if tool == "note_list" else 1)
    results = [each for m in messages if isinstance(m, ToolResults) for each in m.results]
    texts = {result.call_id: result.text for result in results}
    names = {"note_search": "The notes say", "current_time": "The clock says"}
    calls = _all_calls(messages)
    lines = [
        f"- The task was: {_short(task)}",
        f"- I took {counted(len(calls) + 1, 'step')} to show you how a run moves.",
        *(
            f"- {names[call.name]}: {_short(texts[call.id])}"
            for call in calls
            if call.name in names and call.id in texts
        ),
        *(
            f"- While I worked you wrote: “{text}”. I kept to it."
            for text in _received(messages[1:])
        ),
    ]
    if calls and not tools:
        lines.append("- I had to stop early: what is missing here was not done.")
    return _final("\n".join([f"## {label[:1].upper()}{label[1:]}\n", *lines]))


def _received(messages: Sequence[Message]) -> list[str]:
    """Return the user's messages to the run, shortened to a line each."""
    notes = [m.note if isinstance(m, ToolResults) else m.text for m in messages]
    return [_short(text) for note in notes for text in _MESSAGE.findall(note)]


def _all_calls(messages: Iterable[Message]) -> list[ToolCall]:
    return [call for each in messages if isinstance(each, Answer) for call in each.calls]


def _calls(messages: Iterable[Message]) -> int:
    """Return the number in the newest call's id, which trimming the history does not change."""
    ids = [_CALL_ID.match(call.id) for call in _all_calls(messages)]
    return max((int(match[1]) for match in ids if match), default=0)


def label_of(task: str) -> str:
    """Return a short label for a task: its first words, without leading verbs and articles."""
    words = re.findall(r"[\w’'-]+", task)
    while len(words) > 1 and words[0].lower() in _LEADING:
        words.pop(0)
    return " ".join(words[:5])[:40] or "task"


def _findings(text: str) -> str:
    """Return the results of subagents, without the tags and the warning around each."""
    bodies = [wrapped.partition("\n\n") for wrapped in _RESULT.findall(text)]
    return "\n\n".join(
        html.unescape(body or warning).replace(SIGNATURE, "").strip() for warning, _, body in bodies
    )


def _final(text: str) -> DemoStep:
    """Return the final reply with a signature that identifies the demo."""
    return DemoStep(f"{text}\n\n{SIGNATURE}")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_QUOTE else line[: _LONGEST_QUOTE - 1].rstrip() + "…"
