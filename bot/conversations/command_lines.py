"""Parses the commands that users type, and lists them for help (pure)."""

import re

from bot.agent.sanitizer import one_line
from bot.errors import BadRequestError
from bot.subagents.requests import RunRequest
from db.runs import Run

_HELP = """\
**Runs** (an id is its first letters, a label, `#n`, or `last`)
- `/subagents list` – your runs (`list all`: everyone's, for admins)
- `/subagents info ID` – status, tokens, timing, result
- `/subagents read ID` – its whole result, also one that could not be delivered
- `/subagents log ID [page]` – what it said and did, step by step
- `/subagents send ID MESSAGE` – tell it something
- `/subagents stop ID` – stop it; `stop all` stops all of yours
- `/subagents spawn [--agent A] [--label L] [--model M] [--budget N] [--minutes N] TASK`
- `/subagents resume ID` – go on with one that failed, was stopped or reached a limit
- `/subagents usage` – what you have used of what you may use
- `/subagents agents` – who can do the work: tools and limits
- `/subagents retry ID`, `/subagents dismiss ID` – a result that could not be delivered

**Chat**
- `{new}` – start afresh; runs go on
- `{model}` – what answers here; `{model NAME}` lets another answer, `{model default}` the usual one
- `{stop}` – stop the answer that is being written
- `{undo}` – what can be taken back: files, notes, memories, schedules
- `{undo list NAME}` – find what can be taken back by its name
- `{undo last}`, `{undo ID}` – take it back
- `{help}` – this"""
_SLACK_HELP = """

Slack has no slash commands in threads: type `!` instead of `/` there, such as `!subagents list`."""

USAGE = {
    "stop": "/subagents stop ID (or `all`, or `last`)",
    "log": "/subagents log ID [page]",
    "info": "/subagents info ID",
    "send": "/subagents send ID MESSAGE",
    "spawn": "/subagents spawn [--agent A] [--label L] [--model M] [--budget N] [--minutes N] TASK",
    "resume": "/subagents resume ID (of a run that failed, was stopped or reached a limit)",
    "read": "/subagents read ID",
    "retry": "/subagents retry ID",
    "dismiss": "/subagents dismiss ID",
}

_OPTION = re.compile(r"--(\w[\w-]*)(?:=|\s+)(\"[^\"]*\"|'[^']*'|(?!--)\S+)\s*")

#: The actions of `/subagents`.
ACTIONS = (
    *("list", "stop", "log", "info", "read", "send"),
    *("spawn", "resume", "usage", "agents", "retry", "dismiss"),
)
#: The commands beside `/subagents`.
NAMES = ("new", "model", "stop", "undo", "help")
#: Most words after an action for a line without `/` or `!` to count as a command: a longer line is
#: a sentence about subagents.
_WORDS_AFTER = {
    **dict.fromkeys(("list", "ls", "usage", "agents", "help"), 1),
    **dict.fromkeys(("stop", "kill", "log", "info", "read", "resume", "retry", "dismiss"), 2),
    **dict.fromkeys(("send", "spawn"), 10_000),
}


def command_in(text: str) -> str:
    """Return the command in a message as `/name words`; empty for any other message.

    `!subagents list` and `subagents list` mean `/subagents list`, since not every platform
    transmits a slash everywhere; `/retinue new` means `/new`.
    """
    line = text.strip()
    if re.match(r"!\w", line) and _first(line[1:]) in {"subagents", "subagent", "retinue", *NAMES}:
        line = "/" + line[1:]
    elif _is_bare(line):
        line = "/" + line
    if not line.startswith("/"):
        return ""
    if _first(line[1:]) != "retinue":
        return line
    rest = line[len("/retinue") :].strip() or "help"
    of_runs = _first(rest) in _WORDS_AFTER and rest.lower() not in NAMES
    return f"/subagents {rest}" if of_runs else f"/{rest}"


def typed(words: str, platform: str) -> str:
    """Return a command other than `/subagents` in the form that users of a platform type.

    Slash commands of Slack do not work in threads, but a command that changes a conversation may
    concern a thread. Discord sends only registered commands, and commands for admins are not
    registered, since Discord would offer them to everyone.
    """
    if platform == "terminal":
        return f"/{words}"
    if platform == "discord" and _first(words) not in NAMES:
        return f"!retinue {words}"
    of_a_thread = words == "new" or words.startswith("model ")
    return f"!{words}" if platform == "slack" and of_a_thread else f"/retinue {words}"


def help_text(platform: str) -> str:
    """Return the commands as users of a platform type them, Markdown."""
    text = re.sub(r"\{([^}]+)\}", lambda found: typed(found[1], platform), _HELP)
    return text + _SLACK_HELP * (platform == "slack")


def greeting(platform: str) -> str:
    """Return the answer to a message that only mentions the bot, Markdown."""
    if platform == "slack":
        runs, commands = "!subagents list", "!help"
    else:
        runs, commands = "/subagents list", typed("help", platform)
    return (
        "Hello! I answer questions, work with your files, and hand longer work to subagents that "
        "report back here. Tell me what to do, such as “Research the history of tea in the "
        f"background”. `{runs}` shows your runs, `{commands}` all commands."
    )


def _first(line: str) -> str:
    return line.split(maxsplit=1)[0].lower() if line.strip() else ""


def _is_bare(line: str) -> bool:
    words = line.split()
    if not words or words[0].lower() not in {"subagents", "subagent"}:
        return False
    return len(words) == 1 or len(words) - 2 <= _WORDS_AFTER.get(words[1].lower(), -1)


def belongs_to_a_conversation(command: str) -> bool:
    """Return True if a command needs a conversation.

    The result of a spawned run is stored there, and so is the choice of a model.
    """
    match command.lower().removeprefix("/").split():
        case ["subagents" | "subagent", "spawn", *_] | ["model", _, *_]:
            return True
        case _:
            return False


def changes_something(command: str) -> bool:
    """Return True if a command does more than show something."""
    words = command.lower().split()
    match [word.removeprefix("/") for word in words[:1]] + words[1:2]:
        case ["subagents" | "subagent", action]:
            return action in {"stop", "kill", "send", "spawn", "resume", "retry", "dismiss"}
        case ["new", *_] | ["model", _]:
            return True
        case ["mcp", action]:
            return action == "approve"
        case ["undo", action]:
            return action != "list"
    return False


def can_be_taken(action: str, run: Run, *, undelivered: bool) -> bool:
    """Return True if an action of `/subagents` makes sense for a run, to offer it in a menu.

    Args:
        action: The action, such as `stop`; an unknown action fits every run.
        run: The run.
        undelivered: Whether its result could not be delivered.
    """
    match action:
        case "stop" | "send":
            return not run.status.final
        case "read":
            return run.status.final
        case "resume":
            return run.status.resumable
        case "retry" | "dismiss":
            return undelivered
    return True


def named(command: str, platform: str) -> str:
    """Return the name of a command without its arguments, which others need not read."""
    words = command.split()
    if words[0].lower() in {"/subagents", "/subagent"}:
        return one_line(" ".join(words[:2]), 40)
    return one_line(typed(words[0].removeprefix("/"), platform), 40)


def parse_spawn(words: str) -> RunRequest:
    """Return the request in `[--option value …] [--] task`.

    Raises:
        BadRequestError: An option is unknown or has a bad value; the text shows a correct form.
    """
    options: dict[str, str] = {}
    rest = words
    while match := _OPTION.match(rest):
        options[match[1].lower()] = match[2].strip("\"'")
        rest = rest[match.end() :]
    ended = re.match(r"--\s+", rest)
    if ended:
        rest = rest[ended.end() :]
    known = {"agent", "label", "model", "provider", "budget", "minutes", "steps", "announce"}
    unknown = sorted(set(options) - known)
    if unknown or (rest.startswith("--") and not ended):
        name = unknown[0] if unknown else re.split(r"[\s=]", rest[2:], maxsplit=1)[0].lower()
        wrong = "needs a value" if name in known else "is unknown"
        raise BadRequestError(f"--{one_line(name, 30)} {wrong}. Usage: {USAGE['spawn']}")
    return RunRequest(
        task=rest,
        agent=options.get("agent", ""),
        label=options.get("label", ""),
        model=options.get("model"),
        provider=options.get("provider"),
        token_budget=_number(options, "budget"),
        timeout_minutes=_number(options, "minutes"),
        max_turns=_number(options, "steps"),
        announce=options.get("announce"),
    )


def _number(options: dict[str, str], name: str) -> int | None:
    given = options.get(name)
    if given is None:
        return None
    if not given.isdecimal() or len(given) > 9:
        raise BadRequestError(f"--{name} takes a whole number, such as --{name} 5.")
    return int(given)


def handle_and_rest(words: str) -> tuple[str, str]:
    """Return the handle of a run, which may be a quoted label, and the raw text after it."""
    if words[:1] in {'"', "'"}:
        end = words.find(words[0], 1)
        if end > 0:
            return words[1:end], words[end + 1 :].strip()
    handle, _, rest = words.partition(" ")
    return handle, rest.strip()


def needs(words: str, action: str) -> None:
    """Check that a handle follows an action.

    Raises:
        BadRequestError: The handle is missing; the text shows the usage of the command.
    """
    if not words:
        raise BadRequestError(f"Which run? Usage: {USAGE[action]}. /subagents list shows yours.")
