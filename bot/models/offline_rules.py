"""The main agent of the offline demo: a table of rules, tried in order."""

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bot.agent.messages import ToolCall, ToolResult
from bot.models.offline_moves import Move, Wish, fields_of, final, findings, label_of

HELP = """\
Hello! I am a demo: I follow a few rules, so that you can see how the bot works. Try one of these:

- `research the history of tea and the history of coffee in the background`
- `start a run on the moons of Jupiter`
- `what is running`, `stop <run>`, `tell <run> be brief`
- `delegate: find out what time it is`
- `note: the cake is in the oven`, `search my notes for cake`
- `what time is it`"""

_VERBS = ("research", "compare", "check", "explore", "summarise", "summarize", "study", "write")
_FOR_WORKERS = ("note_search", "current_time")


@dataclass(frozen=True, slots=True)
class Rule:
    """Maps texts that match a pattern to wishes for a tool.

    The function gets the pattern's named groups and the names of the available tools.
    """

    pattern: re.Pattern[str]
    tool: str
    wishes: Callable[[dict[str, str], frozenset[str]], Sequence[Wish]]


def move(words: str, tools: frozenset[str]) -> Move:
    """Return the answer to a user's text, given the available tools."""
    if "<subagent_result" in words:
        return final(f"Your runs have ended. They report:\n\n{findings(words)}")
    for rule in RULES:
        if match := rule.pattern.search(words.strip()):
            if rule.tool not in tools:
                return final(f"For that I would need the tool `{rule.tool}`, which I cannot use.")
            groups = {name: (value or "").strip() for name, value in match.groupdict().items()}
            return Move("", tuple(rule.wishes(groups, tools)))
    return final(HELP)


def reply(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Move:
    """Return the final reply about the results of the calls."""
    known = {call.id: call for call in calls}
    lines = []
    for result in results:
        call = known.get(result.call_id, ToolCall(result.call_id, ""))
        say = _failed if result.failed else _AFTER.get(call.name, _quoted)
        lines.append(say(call, result.text))
    return final("\n".join(lines if len(lines) == 1 else [f"- {line}" for line in lines]))


# -- wishes --------------------------------------------------------------------------------------


def _spawn(said: dict[str, str], _: frozenset[str]) -> list[Wish]:
    return [
        Wish("sessions_spawn", {"task": task, "label": label_of(task)})
        for task in _tasks(said["what"])
    ]


def _tasks(text: str) -> list[str]:
    """Return the tasks in a sentence, at most five: `research tea and coffee` contains two."""
    several = [part for part in re.split(r"\s*[;\n]\s*", text.strip(" .!?")) if part]
    verb, _, rest = text.strip(" .!?").partition(" ")
    if len(several) > 1 or verb.lower() not in _VERBS:
        return several[:5]
    parts = [part for part in re.split(r",?\s+and\s+|,\s*", rest) if part]
    return [part if part.lower().startswith(_VERBS) else f"{verb} {part}" for part in parts[:5]]


def _spawn_one(said: dict[str, str], _: frozenset[str]) -> list[Wish]:
    task = f"{said['verb']} {said['what']}"
    return [Wish("sessions_spawn", {"task": task, "label": label_of(task)})]


def _delegate(said: dict[str, str], tools: frozenset[str]) -> list[Wish]:
    needed = [name for name in _FOR_WORKERS if name in tools]
    task = said["what"]
    arguments = {"task": task, "tools_needed": needed, "worker_name": label_of(task)}
    return [Wish("delegate_to_subagent", arguments)]


def _one(tool: str, **names: str) -> Callable[[dict[str, str], frozenset[str]], list[Wish]]:
    """Return a function that wishes for one call with arguments from the named groups."""
    return lambda said, _: [Wish(tool, {name: said[group] for name, group in names.items()})]


def _time(said: dict[str, str], _: frozenset[str]) -> list[Wish]:
    return [Wish("current_time", {"zone": said["zone"]} if said["zone"] else {})]


# -- texts about results -------------------------------------------------------------------------


def _spawned(call: ToolCall, text: str) -> str:
    answer = fields_of(text)
    run_id = str(answer.get("run_id") or answer.get("runId") or "")
    label = call.arguments.get("label") or label_of(str(call.arguments.get("task", "")))
    if not run_id:
        return f"“{label}” was not started: {answer.get('error') or text}"
    if answer.get("status") == "queued":
        return f"Run `{run_id[:8]}` (“{label}”) waits for a free place."
    return f"Run `{run_id[:8]}` (“{label}”) has started. I will announce its result here."


def _delegated(_: ToolCall, text: str) -> str:
    return f"The subagent reports:\n\n{findings(text)}"


def _stopped(_: ToolCall, text: str) -> str:
    if "confirmation_asked" in text:
        return "Before I stop it I need your word: please confirm."
    return html.unescape(text)


def _saved(_: ToolCall, text: str) -> str:
    return f"I made a note of it. {text}"


def _quoted(_: ToolCall, text: str) -> str:
    return html.unescape(text) or "There is nothing."


def _failed(call: ToolCall, text: str) -> str:
    label = call.arguments.get("label")
    return f"{f'“{label}”' if label else call.name or 'It'} did not work: {html.unescape(text)}"


_AFTER: dict[str, Callable[[ToolCall, str], str]] = {
    "sessions_spawn": _spawned,
    "delegate_to_subagent": _delegated,
    "sessions_stop": _stopped,
    "note_save": _saved,
}


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.DOTALL)


_START = r"^(?:please\s+|could you\s+|can you\s+)?"
_RUN = r"(?:the\s+)?(?:run\s+)?(?P<run>\S+)"

RULES = (
    Rule(
        _pattern(rf"{_START}(?:note|remember)(?:\s+that|:)\s*(?P<what>.+)"),
        "note_save",
        _one("note_save", text="what"),
    ),
    Rule(
        _pattern(
            rf"{_START}(?:search my notes(?:\s+for)?|what did i note(?:\s+about)?)"
            r"\s+(?P<what>.+?)\??$"
        ),
        "note_search",
        _one("note_search", query="what"),
    ),
    Rule(
        _pattern(rf"{_START}(?:stop|cancel)\s+(?:the\s+)?(?:run\s+)?(?P<run>.+?)[.!]?$"),
        "sessions_stop",
        _one("sessions_stop", run_id="run"),
    ),
    Rule(
        _pattern(
            rf"{_START}(?:tell|send)\s+(?:to\s+)?(?:run\s+)?(?!me\b|us\b)(?P<run>[^\s:]+)"
            r":?\s+(?P<what>.+)"
        ),
        "sessions_send",
        _one("sessions_send", run_id="run", message="what"),
    ),
    Rule(
        _pattern(rf"{_START}(?:show\s+)?(?:the\s+)?log\s+(?:of\s+)?{_RUN}"),
        "sessions_log",
        _one("sessions_log", run_id="run"),
    ),
    Rule(
        _pattern(rf"{_START}(?:show\s+)?info\s+(?:on\s+|about\s+)?{_RUN}"),
        "sessions_info",
        _one("sessions_info", run_id="run"),
    ),
    Rule(
        _pattern(rf"{_START}list\b|what(?:['’]s| is| are)?\s+(?:still\s+)?running"),
        "sessions_list",
        _one("sessions_list"),
    ),
    Rule(
        _pattern(
            rf"{_START}(?:delegate|quickly look up|(?:ask|have|let) a subagent)\b[:,]?"
            r"\s*(?:to\s+)?(?P<what>.+)"
        ),
        "delegate_to_subagent",
        _delegate,
    ),
    Rule(
        _pattern(
            rf"{_START}(?:spawn|start|launch)\s+(?:\w+\s+)?(?:runs?|subagents?)\b"
            r"\s*(?:on\b|to\b|for\b|about\b|:)?\s*(?P<what>.+)"
        ),
        "sessions_spawn",
        _spawn,
    ),
    Rule(_pattern(rf"{_START}in the background[,:]?\s+(?P<what>.+)"), "sessions_spawn", _spawn),
    # Only in the first line: a text that is piped in may contain these words too.
    Rule(
        _pattern(
            rf"{_START}(?P<verb>[^\n]+?),?[^\S\n]+in the background,?\s+(?!please\b|and\b|then\b)"
            r"(?P<what>\w.+?)(?:,?\s+and\s+(?:tell|show|let|inform)\s+me\b.*)?[.!]?$"
        ),
        "sessions_spawn",
        _spawn_one,
    ),
    Rule(
        _pattern(rf"{_START}(?P<what>[^\n]+?),?[^\S\n]+in the background\b"),
        "sessions_spawn",
        _spawn,
    ),
    Rule(_pattern(rf"{_START}(?P<what>research\s+.+)"), "sessions_spawn", _spawn),
    Rule(
        _pattern(r"\btime\b(?:.*?\b(?P<zone>(?-i:[A-Z][a-z]+)/\w+))?"),
        "current_time",
        _time,
    ),
)
