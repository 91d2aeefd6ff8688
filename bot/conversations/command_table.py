"""The built-in commands of users. A new command is one more entry of this table.

Help, completion, menus, buttons, slash commands and parsing are made from the table on every
platform.
"""

from dataclasses import replace
from functools import partial

from bot.conversations import (
    chat_commands,
    data_commands,
    run_commands,
    settings_commands,
)
from bot.conversations.admin_table import ADMIN_COMMANDS
from bot.conversations.command_arguments import Argument, ArgumentKind
from bot.conversations.command_lines import CommandGroup, CommandTable
from bot.conversations.commands import ChatCommand

_of_runs = partial(ChatCommand, (CommandGroup.RUNS,))
_of_chat = partial(ChatCommand, (CommandGroup.CHAT,))
_optional = partial(Argument, required=False)
_FLAG, _NUMBER, _TEXT = ArgumentKind.FLAG, ArgumentKind.NUMBER, ArgumentKind.TEXT

_RUN = Argument(
    "run",
    "ID",
    "One of your runs: pick it, or type the first letters of its id, its label, or “last”",
    ArgumentKind.RUN,
    least=1,
    most=100,
)
_RUN_OR_ALL = replace(_RUN, choices=(("all", "Stop all your runs"),))


def _option(name: str, label: str, description: str) -> Argument:
    """Return an option; without a description, help and slash commands do not show it."""
    listed = bool(description)
    return _optional(name, label, description, option=True, listed=listed)


def _number(name: str, description: str, most: int, *, option: bool = True) -> Argument:
    label, listed = "N" if option else name, bool(description)
    return _optional(
        name, label, description, _NUMBER, option=option, listed=listed, least=1, most=most
    )


COMMANDS: CommandTable[ChatCommand] = CommandTable(
    (
        # -- runs
        _of_runs(
            "list",
            "Your runs: those at work, and those that finished in the last 30 minutes",
            (_optional("everyone", "all", "Everyone's runs (admins only)", _FLAG),),
            handler=run_commands.list_runs,
            aliases=("ls",),
        ),
        _of_runs(
            "stop",
            "Stop a run, or with ID+ all that were started with it; you get what there is so far",
            (_RUN_OR_ALL,),
            handler=run_commands.stop,
            aliases=("kill",),
            changes=lambda _: True,
            fits=lambda status, _: not status.final,
            without_runs="None of your runs is going on: there is nothing to stop.",
            button="danger",
        ),
        _of_runs(
            "resume",
            "Go on with a run that failed, was stopped or reached a limit",
            (_RUN,),
            handler=run_commands.resume,
            changes=lambda _: True,
            fits=lambda status, _: status.resumable,
            without_runs="None of your runs failed, was stopped or reached a limit: there is "
            "nothing to resume.",
            button="primary",
        ),
        _of_runs(
            "log",
            "What a run said and did, step by step",
            (_RUN, _number("page", "Which page; the first by default", 999_999, option=False)),
            handler=run_commands.log,
            button="secondary",
        ),
        _of_runs(
            "info",
            "How a run is doing: status, tokens, timing, result",
            (_RUN,),
            handler=run_commands.info,
        ),
        _of_runs(
            "read",
            "The whole result of a run, also one that could not be delivered",
            (_RUN,),
            handler=run_commands.read,
            fits=lambda status, _: status.final,
            without_runs="None of your runs has ended yet.",
        ),
        _of_runs(
            "send",
            "Tell a run something; it reads it before its next step",
            (
                _RUN,
                Argument("message", "MESSAGE", "What it should know", _TEXT, least=1, most=4_000),
            ),
            handler=run_commands.send,
            changes=lambda _: True,
            fits=lambda status, _: not status.final,
            without_runs="None of your runs is going on, so none can be told anything.",
            button="secondary",
        ),
        _of_runs(
            "notify",
            "When you are notified about your runs",
            (
                _optional(
                    "how",
                    "HOW",
                    "done, progress or silent; leave it out to see it",
                    choices=tuple(run_commands.NOTIFICATIONS.items()),
                ),
            ),
            handler=run_commands.notify,
            changes=bool,
        ),
        _of_runs(
            "spawn",
            "Start a run in the background; the result comes here",
            (
                _option("agent", "A", "Who does it (/subagents agents lists them)"),
                _option("label", "L", "A short name, to find it again"),
                _option(
                    "model", "M", "The language model that works on it (/retinue model lists them)"
                ),
                _option("provider", "P", ""),
                _number("budget", "The most tokens that it may use", 100_000_000),
                _number("minutes", "The most minutes that it may take", 10_080),
                _number("steps", "", 0),
                _option("announce", "HOW", ""),
                _option("notify", "HOW", ""),
                Argument(
                    "task",
                    "TASK",
                    "What it should do, with all that it has to know",
                    _TEXT,
                    least=1,
                    most=4_000,
                ),
            ),
            handler=run_commands.spawn,
            public=True,
            changes=lambda _: True,
            opens=True,
        ),
        ChatCommand(
            (CommandGroup.RUNS, CommandGroup.CHAT),
            "usage",
            "Your usage, its cost and your limits",
            (
                _optional(
                    "whose",
                    "WHOSE",
                    "“all” or “csv”: everyone's this month (admins only)",
                    choices=(
                        ("all", "What everyone used this month (admins only)"),
                        ("csv", "The same as a file (admins only)"),
                    ),
                ),
            ),
            handler=run_commands.usage,
        ),
        _of_runs(
            "agents",
            "Who can do the work: tools and limits",
            (_optional("which", "WORD [PAGE]", "Only those with this word; the number of a page"),),
            handler=run_commands.agents,
            public=True,
        ),
        _of_runs(
            "retry",
            "Try again to deliver a result that did not reach you",
            (_RUN,),
            handler=run_commands.retry,
            changes=lambda _: True,
            fits=lambda _, undelivered: undelivered,
            without_runs="Everything for you was delivered: there is nothing to try again.",
        ),
        _of_runs(
            "dismiss",
            "Do without a result that could not be delivered",
            (_RUN,),
            handler=run_commands.dismiss,
            changes=lambda _: True,
            fits=lambda _, undelivered: undelivered,
            without_runs="Everything for you was delivered: there is nothing to dismiss.",
        ),
        # -- the conversation
        _of_chat(
            "new",
            "Start afresh: what was said here is set aside; runs go on",
            (_optional("undo", "undo", "Go back to the conversation before", _FLAG),),
            handler=chat_commands.new,
            public=True,
            changes=lambda _: True,
            threaded=True,
        ),
        _of_chat(
            "ask",
            "Ask me something; the answer comes here",
            (
                _optional(
                    "question", "QUESTION", "What you want to know, or have done", _TEXT, most=4_000
                ),
            ),
            handler=chat_commands.ask,
            public=True,
        ),
        _of_chat(
            "model",
            "Which language model answers here, or let another one answer",
            (
                _optional(
                    "name",
                    "NAME",
                    "The model, or “default”; leave it out to see them all",
                    choices=(("default", "Let the usual model answer here"),),
                ),
            ),
            handler=chat_commands.model,
            public=True,
            changes=bool,
            opens=True,
            threaded=True,
        ),
        _of_chat(
            "stop",
            "Stop the answer that is being written here; runs go on",
            (_optional("turn", "turn", "", _FLAG, listed=False),),
            handler=chat_commands.stop,
            public=True,
            changes=lambda _: True,
        ),
        _of_chat(
            "context",
            "What I send with each message of yours here, in tokens",
            (_optional("forget", "forget", "Delete the summary (admins only)", _FLAG),),
            handler=chat_commands.context,
            changes=bool,
            threaded=True,
        ),
        _of_chat(
            "grants",
            "What you have allowed in threads for a day; a name takes it back",
            (
                _optional(
                    "tool",
                    "NAME",
                    "The name of a tool, or “all”; leave it out to see them",
                    choices=(("all", "Take back all that you have allowed"),),
                ),
            ),
            handler=chat_commands.grants_,
            changes=bool,
        ),
        _of_chat(
            "settings",
            "What applies to you here, and where each value comes from",
            (
                _option("user", "U", "Another user: a mention or an account (admins only)"),
                _option("place", "P", "Another place: discord:SERVER:CHANNEL (admins only)"),
            ),
            handler=settings_commands.settings,
        ),
        _of_chat(
            "undo",
            "What can be taken back: files, notes, memories, schedules; an id takes it back",
            (
                _optional(
                    "change",
                    "ID",
                    "Its id, “last”, or “list NAME”; leave it out to see the newest",
                    most=40,
                    choices=(
                        ("last", "Take back the last change"),
                        ("list NAME", "Find what can be taken back by its name"),
                    ),
                ),
            ),
            handler=chat_commands.undo,
            changes=lambda words: words.lower().split()[:1] not in ([], ["list"]),
        ),
        _of_chat(
            "export",
            "Send you a copy of all that is stored about you, in direct messages",
            handler=data_commands.export,
        ),
        _of_chat(
            "forget",
            "Delete all that is stored about you",
            (
                _optional(
                    "whom",
                    "me",
                    "“me” shows what would be deleted, “me yes” deletes it",
                    most=40,
                    choices=(("me yes", "Delete it for good"),),
                ),
            ),
            handler=data_commands.forget,
            changes=lambda words: words.lower().split() == ["me", "yes"],
        ),
        *ADMIN_COMMANDS,
        ChatCommand(
            (CommandGroup.CHAT, CommandGroup.RUNS),
            "help",
            "What I can do, and how you ask for it",
            handler=chat_commands.help_,
            public=True,
        ),
    )
)
