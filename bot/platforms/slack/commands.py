"""Handles the slash commands; their arguments are the text commands of all platforms."""

from bot.agent.sanitizer import one_line
from bot.conversations.command_lines import CommandGroup, CommandSpec, handle_and_rest
from bot.platforms.base import CommandReply
from bot.platforms.messaging.intake import outcome
from bot.platforms.slack import actions, blocks, speech
from bot.platforms.slack.interactions import AdmittedInteraction, SlackReceiver
from bot.platforms.slack.settings import SlackSettings
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
NONE_NAMED = "None of your runs that are going on is “{named}”. `/subagents list` shows yours."


async def typed(receiver: SlackReceiver, settings: SlackSettings, body: Json) -> None:
    """Carry out a slash command, or ask for missing arguments."""
    of_runs = body.get("command") == settings.subagents_command
    group = CommandGroup.RUNS if of_runs else CommandGroup.CHAT
    rest = speech.spoken(str(body.get("text") or ""), "")
    text = f"/{group} {rest}".rstrip()
    found = receiver.inbound.command_table.find(text)
    command, words = (found.command, found.words) if found else (None, "")

    async def handle(admitted: AdmittedInteraction) -> None:
        if command is None:
            await admitted.carry_out(text)
        elif command.leaves_quote_open(words):
            await admitted.say(OPEN_QUOTE.format(command=settings.subagents_command))
        elif command.threaded and command.changes(words):
            await admitted.say(IN_A_THREAD.format(rest=rest))
        elif command.run and (not words or (command.text and not handle_and_rest(words)[1])):
            await _ask_for_rest(admitted, body, command, handle_and_rest(words)[0])
        else:
            await admitted.carry_out(text)

    await receiver.admit(body, handle)


async def _ask_for_rest(
    admitted: AdmittedInteraction, body: Json, command: CommandSpec, named: str
) -> None:
    """Offer a menu of the user's runs for a command, or the form for a message to the named run.

    The form contains the run's id: `last` can be another run by the time of the submission.
    """
    receiver = admitted.receiver
    asked = receiver.inbound.run_choices(admitted.person.identity, named, action=command.name)
    choices = await outcome(asked, f"/subagents {command.name}")
    if isinstance(choices, CommandReply):
        await receiver.outlet.answers.give(admitted.recipient, choices)
        return
    if named and len(choices) == 1:
        await actions.open_send_form(admitted, body, choices[0][0])
        return
    menu = blocks.run_menu(choices, f"/subagents {command.name}")
    none = NONE_NAMED.format(named=one_line(named, 60)) if named else command.without_runs
    await receiver.outlet.answers.say(admitted.recipient, WHICH if menu else none, below=menu)
