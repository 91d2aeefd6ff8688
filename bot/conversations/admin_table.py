"""The built-in commands of admins, as part of the table of commands."""

from dataclasses import replace
from functools import partial

from bot.conversations import audit_commands, control_commands, pairing, spending_commands
from bot.conversations.command_arguments import Argument, ArgumentKind
from bot.conversations.command_lines import CommandGroup
from bot.conversations.commands import ChatCommand

_of_admins = partial(ChatCommand, (CommandGroup.CHAT,), admin=True)
_changes = partial(_of_admins, changes=lambda _: True)
_optional = partial(Argument, required=False)
_option = partial(_optional, option=True)
_TEXT = ArgumentKind.TEXT

_SCOPE = _optional(
    "scope",
    "SCOPE",
    "all, server, here, channel NAME, or user NAME",
    most=200,
    choices=(
        ("all", "Everything (operators only)"),
        ("server", "What is done in this server or workspace"),
        ("here", "What is done in this channel"),
        ("channel NAME", "What is done in another channel, such as discord:12345:67890"),
        ("user NAME", "What a user does: a mention, or an account such as discord:12345"),
    ),
)
_WHOLE = replace(_SCOPE, required=True)


ADMIN_COMMANDS: tuple[ChatCommand, ...] = (
    _changes(
        "raise",
        "Raise a spending limit until midnight UTC",
        (
            Argument("limit", "LIMIT", "channel, server, bot or me"),
            Argument("amount", "AMOUNT", "Dollars such as $5, or a number of tokens", _TEXT),
        ),
        handler=spending_commands.raise_limit,
    ),
    _of_admins(
        "pair",
        "Admit a user to direct messages by their code, or remove a user",
        (
            _optional(
                "words",
                "CODE",
                "The code; leave it out to see who is admitted",
                _TEXT,
                choices=(("remove ACCOUNT", "Withdraw an account"),),
            ),
        ),
        handler=pairing.pair,
        changes=bool,
    ),
    _changes(
        "pause",
        "Start nothing new: running work continues, and messages wait",
        (_SCOPE,),
        handler=control_commands.pause,
    ),
    _changes(
        "resume",
        "End a pause and start the work that waited",
        (_SCOPE,),
        handler=control_commands.resume,
    ),
    _changes(
        "kill",
        "Stop all work, keep partial results, and pause; “yes” at the end confirms it",
        (_WHOLE,),
        handler=control_commands.kill,
    ),
    _of_admins(
        "health",
        "State: queue, stalled work, deliveries, providers, processes, disk (for operators)",
        operator=True,
        handler=control_commands.health,
    ),
    _of_admins(
        "audit",
        "Audit log: who did what here, and to whose work (for admins)",
        (
            _optional(
                "form",
                "file",
                "“file” sends all of them as JSON Lines",
                choices=((audit_commands.FILE, "All of them as a file of JSON Lines"),),
            ),
            _option("user", "U", "Who did it or whose it was: a mention or an account"),
            _option("action", "A", "What was done, such as spawn, stop or raise"),
            _option("since", "DAY", "Since when: a day such as 2026-11-30, or 7d, or 12h"),
        ),
        handler=audit_commands.audit,
    ),
    _changes(
        "drain",
        "Let this process finish its work and end (operators only)",
        operator=True,
        handler=control_commands.drain,
    ),
)
