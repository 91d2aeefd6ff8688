"""The built-in commands of users. A new command is one more entry of this table.

Help, completion, menus, buttons, slash commands and parsing are made from the table on every
platform.
"""

from dataclasses import replace

from bot.conversations import chat_commands, data_commands, run_commands
from bot.conversations.command_lines import Argument, ArgumentKind, CommandGroup, CommandTable
from bot.conversations.commands import ChatCommand

_RUNS, _CHAT = (CommandGroup.RUNS,), (CommandGroup.CHAT,)
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
    return Argument(name, label, description, required=False, option=True, listed=listed)


def _number(name: str, description: str, most: int, *, option: bool = True) -> Argument:
    label, listed = "N" if option else name, bool(description)
    return Argument(
        name,
        label,
        description,
        _NUMBER,
        required=False,
        option=option,
        listed=listed,
        least=1,
        most=most,
    )


COMMANDS: CommandTable[ChatCommand] = CommandTable(
    (
        # -- runs
        ChatCommand(
            _RUNS,
            "list",
            "Your runs: those at work, and those that finished in the last 30 minutes",
            (Argument("everyone", "all", "Everyone's runs (admins only)", _FLAG, required=False),),
            handler=run_commands.list_runs,
            aliases=("ls",),
        ),
        ChatCommand(
            _RUNS,
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
        ChatCommand(
            _RUNS,
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
        ChatCommand(
            _RUNS,
            "log",
            "What a run said and did, step by step",
            (_RUN, _number("page", "Which page; the first by default", 999_999, option=False)),
            handler=run_commands.log,
            button="secondary",
        ),
        ChatCommand(
            _RUNS,
            "info",
            "How a run is doing: status, tokens, timing, result",
            (_RUN,),
            handler=run_commands.info,
        ),
        ChatCommand(
            _RUNS,
            "read",
            "The whole result of a run, also one that could not be delivered",
            (_RUN,),
            handler=run_commands.read,
            fits=lambda status, _: status.final,
            without_runs="None of your runs has ended yet.",
        ),
        ChatCommand(
            _RUNS,
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
        ChatCommand(
            _RUNS,
            "notify",
            "When you are notified about your runs",
            (
                Argument(
                    "how",
                    "HOW",
                    "done, progress or silent; leave it out to see it",
                    required=False,
                    choices=tuple(run_commands.NOTIFICATIONS.items()),
                ),
            ),
            handler=run_commands.notify,
            changes=bool,
        ),
        ChatCommand(
            _RUNS,
            "spawn",
            "Start a run in the background; the result comes here",
            (
                _option("agent", "A", "Who does it (/retinue help lists the agents)"),
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
            (*_RUNS, *_CHAT),
            "usage",
            "Your usage, its cost and your limits",
            (
                Argument(
                    "whose",
                    "WHOSE",
                    "“all” or “csv”: everyone's this month (admins only)",
                    required=False,
                    choices=(
                        ("all", "What everyone used this month (admins only)"),
                        ("csv", "The same as a file (admins only)"),
                    ),
                ),
            ),
            handler=run_commands.usage,
        ),
        ChatCommand(
            _RUNS,
            "agents",
            "Who can do the work: tools and limits",
            handler=run_commands.agents,
            public=True,
        ),
        ChatCommand(
            _RUNS,
            "retry",
            "Try again to deliver a result that did not reach you",
            (_RUN,),
            handler=run_commands.retry,
            changes=lambda _: True,
            fits=lambda _, undelivered: undelivered,
            without_runs="Everything for you was delivered: there is nothing to try again.",
        ),
        ChatCommand(
            _RUNS,
            "dismiss",
            "Do without a result that could not be delivered",
            (_RUN,),
            handler=run_commands.dismiss,
            changes=lambda _: True,
            fits=lambda _, undelivered: undelivered,
            without_runs="Everything for you was delivered: there is nothing to dismiss.",
        ),
        # -- the conversation
        ChatCommand(
            _CHAT,
            "new",
            "Start afresh: what was said here is set aside; runs go on",
            (
                Argument(
                    "undo", "undo", "Go back to the conversation before", _FLAG, required=False
                ),
            ),
            handler=chat_commands.new,
            public=True,
            changes=lambda _: True,
            threaded=True,
        ),
        ChatCommand(
            _CHAT,
            "ask",
            "Ask me something; the answer comes here",
            (
                Argument(
                    "question",
                    "QUESTION",
                    "What you want to know, or have done",
                    _TEXT,
                    required=False,
                    most=4_000,
                ),
            ),
            handler=chat_commands.ask,
            public=True,
        ),
        ChatCommand(
            _CHAT,
            "model",
            "Which language model answers here, or let another one answer",
            (
                Argument(
                    "name",
                    "NAME",
                    "The model, or “default”; leave it out to see them all",
                    required=False,
                    choices=(("default", "Let the usual model answer here"),),
                ),
            ),
            handler=chat_commands.model,
            public=True,
            changes=bool,
            opens=True,
            threaded=True,
        ),
        ChatCommand(
            _CHAT,
            "stop",
            "Stop the answer that is being written here; runs go on",
            (Argument("turn", "turn", "", _FLAG, required=False, listed=False),),
            handler=chat_commands.stop,
            public=True,
            changes=lambda _: True,
        ),
        ChatCommand(
            _CHAT,
            "context",
            "What I send with each message of yours here, in tokens",
            (
                Argument(
                    "forget", "forget", "Delete the summary (admins only)", _FLAG, required=False
                ),
            ),
            handler=chat_commands.context,
            changes=bool,
            threaded=True,
        ),
        ChatCommand(
            _CHAT,
            "grants",
            "What you have allowed in threads for a day; a name takes it back",
            (
                Argument(
                    "tool",
                    "NAME",
                    "The name of a tool, or “all”; leave it out to see them",
                    required=False,
                    choices=(("all", "Take back all that you have allowed"),),
                ),
            ),
            handler=chat_commands.grants_,
            changes=bool,
        ),
        ChatCommand(
            _CHAT,
            "undo",
            "What can be taken back: files, notes, memories, schedules; an id takes it back",
            (
                Argument(
                    "change",
                    "ID",
                    "Its id, “last”, or “list NAME”; leave it out to see the newest",
                    required=False,
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
        ChatCommand(
            _CHAT,
            "export",
            "Send you a copy of all that is stored about you, in direct messages",
            handler=data_commands.export,
        ),
        ChatCommand(
            _CHAT,
            "forget",
            "Delete all that is stored about you",
            (
                Argument(
                    "whom",
                    "me",
                    "“me” shows what would be deleted, “me yes” deletes it",
                    required=False,
                    most=40,
                    choices=(("me yes", "Delete it for good"),),
                ),
            ),
            handler=data_commands.forget,
            changes=lambda words: words.lower().split() == ["me", "yes"],
        ),
        ChatCommand(
            (*_CHAT, *_RUNS),
            "help",
            "What I can do, and how you ask for it",
            handler=chat_commands.help_,
            public=True,
        ),
    )
)
