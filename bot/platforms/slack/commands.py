"""Handles the slash commands; their arguments are the text commands of all platforms."""

import shlex

from bot.agent.sanitizer import one_line
from bot.conversations.command_lines import handle_and_rest
from bot.platforms.base import CommandReply
from bot.platforms.slack import actions, blocks, speech
from bot.platforms.slack.settings import SlackSettings
from bot.platforms.slack.visits import SlackReceiver, Visit
from bot.values import Json

OPEN_QUOTE = (
    "There is a quotation mark without its partner. Put both, or none: "
    '`{command} spawn --label "barn owls" count the owls`.'
)
IN_A_THREAD = (
    "On Slack each thread is a talk of its own, and slash commands do not know threads. To do this "
    "in a thread, write `@` and my name and `!{rest}` there; a new message outside of threads "
    "always starts afresh."
)
WHICH = "Which run?"
NO_RUN = "You have no runs."
#: The answer to each action if the user has no suitable run.
NO_RUNS = {
    "stop": "None of your runs is going on: there is nothing to stop.",
    "send": "None of your runs is going on, so none can be told anything.",
    "resume": "None of your runs failed, was stopped or reached a limit: there is nothing to "
    "resume.",
    "read": "None of your runs has ended yet.",
    "retry": "Everything for you was delivered: there is nothing to try again.",
    "dismiss": "Everything for you was delivered: there is nothing to dismiss.",
}
NONE_NAMED = "None of your runs that are going on is “{named}”. `/subagents list` shows yours."


async def typed(receiver: SlackReceiver, settings: SlackSettings, body: Json) -> None:
    """Carry out a slash command, or ask for missing arguments."""
    text = speech.spoken(str(body.get("text") or ""), "")
    of_runs = body.get("command") == settings.subagents_command

    async def handle(visit: Visit) -> None:
        if not closes_its_quotes(text):
            await visit.say(OPEN_QUOTE.format(command=settings.subagents_command))
        elif of_runs:
            await _runs(visit, body, text)
        else:
            await _talk(visit, text)

    await receiver.attend(body, handle)


async def _runs(visit: Visit, body: Json, text: str) -> None:
    action, *rest = text.split(maxsplit=2) or [""]
    action = action.lower()
    if action in actions.ON_A_RUN and not rest:
        await _ask_which(visit, action)
    elif action == "send" and not (named := handle_and_rest(text[len("send") :].strip()))[1]:
        await _ask_what_to_send(visit, body, named[0])
    else:
        await visit.carry_out(f"/subagents {text}".rstrip())


async def _ask_what_to_send(visit: Visit, body: Json, named: str) -> None:
    """Open the form for the named run; if the name is ambiguous, offer a menu of the matches.

    The form contains the run's id: `last` can be another run by the time of the submission.
    """
    choices = await _choices(visit, "send", named)
    if choices is None:
        return
    if len(choices) == 1:
        await actions.open_send_form(visit, body, choices[0][0])
        return
    menu = blocks.run_menu(choices, "/subagents send")
    text = WHICH if menu else NONE_NAMED.format(named=one_line(named, 60))
    await visit.receiver.outlet.answers.say(visit.recipient, text, below=menu)


async def _ask_which(visit: Visit, action: str) -> None:
    """Offer a menu of the user's runs for an action."""
    choices = await _choices(visit, action)
    if choices is None:
        return
    menu = blocks.run_menu(choices, f"/subagents {action}")
    text = WHICH if menu else NO_RUNS.get(action, NO_RUN)
    await visit.receiver.outlet.answers.say(visit.recipient, text, below=menu)


async def _choices(visit: Visit, action: str, named: str = "") -> list[tuple[str, str]] | None:
    """Return the user's runs for an action; `None` after an error, which was sent to the user."""
    receiver = visit.receiver
    asked = receiver.inbound.run_choices(visit.person.identity, named, action=action)
    choices = await receiver.outcome(asked, f"/subagents {action}")
    if isinstance(choices, CommandReply):
        await receiver.outlet.answers.give(visit.recipient, choices)
        return None
    return choices


async def _talk(visit: Visit, text: str) -> None:
    action, *rest = text.split(maxsplit=1) or [""]
    if action.lower() == "new" or (action.lower() == "model" and rest):
        await visit.say(IN_A_THREAD.format(rest=text))
        return
    await visit.carry_out(f"/retinue {text}".rstrip())


def closes_its_quotes(text: str) -> bool:
    """Return True if all quotations of a command end; free text may have unpaired marks."""
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.commenters, lexer.quotes, lexer.escape = True, "", '"', ""
    words: list[str] = []
    try:
        while (word := lexer.get_token()) is not lexer.eof and not _is_free(words, word or ""):
            words.append(word or "")
    except ValueError:
        return _is_free(words, lexer.token or "")
    return True


def _is_free(words: list[str], word: str) -> bool:
    """Return True if a word begins the free text of a command: a task or a message."""
    match [each.lower() for each in words]:
        case ["send", _, *_]:
            return True
        case ["spawn", *options]:
            value = bool(options) and options[-1].startswith("--") and "=" not in options[-1]
            return word == "--" or not (value or word.startswith("--"))
    return False
