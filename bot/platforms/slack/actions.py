"""Handles slash commands, clicks, menus and forms; their state is in the payload, not in memory."""

import json
import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial

from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from bot.agent.sanitizer import one_line
from bot.conversations.command_lines import CommandGroup, CommandSpec, handle_and_rest
from bot.conversations.command_table import COMMANDS
from bot.errors import DeliveryError
from bot.platforms.base import CommandReply
from bot.platforms.messaging.intake import outcome
from bot.platforms.messaging.texts import decision
from bot.platforms.slack import blocks, messages
from bot.platforms.slack.interactions import AdmittedInteraction, SlackReceiver
from bot.platforms.slack.outlet import ShownQuestion
from bot.platforms.slack.people import SlackUser
from bot.platforms.slack.settings import SlackSettings
from bot.platforms.slack.texts import written_out
from bot.values import Json

log = logging.getLogger(__name__)

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
OLD = "This form is from an older version of me. Type `/subagents send` and choose the run again."
CLOSED = "Slack did not open the form. Type `/subagents send {run}` and your message instead."
#: Most characters of an error that a form shows below its field.
LONGEST_ERROR = 2_000
UNKNOWN = "Your runs cannot be shown at the moment: {reason} Open this tab again in a while."

_ANY = re.compile(".*")

#: The action ids of the buttons about a run.
_RUN_BUTTONS = "|".join(blocks.RUN + each.name for each in COMMANDS.commands if each.button)

#: Handles the click on a button, given the payload and the clicked element.
Clicked = Callable[..., Awaitable[None]]


def register(app: AsyncApp, receiver: SlackReceiver, settings: SlackSettings) -> None:
    """Register the handlers of slash commands, clicks and forms."""

    @app.command(_ANY)
    @receiver.in_time
    async def on_command(body: Json, _: AsyncAck) -> None:
        await _typed(receiver, settings, body)

    @app.action(_ANY)
    @receiver.in_time
    async def on_action(body: Json, _: AsyncAck) -> None:
        """Handle a click or a choice from a menu, unless no message of ours has such a button."""
        for action in body.get("actions") or ():
            clicked = f"{action.get('action_id')} {action.get('value') or ''}"
            for known, handle in _BUTTONS.items():
                if known.fullmatch(clicked):
                    await receiver.admit(body, partial(handle, body=body, action=action))
                    return
            log.info("Nobody knows the button %s", action.get("action_id"))

    @app.view(_ANY)
    @receiver.in_time
    async def on_view(body: Json, ack: AsyncAck) -> None:
        await _submitted(receiver, body, ack)


# --- slash commands -----------------------------------------------------------------------------


async def _typed(receiver: SlackReceiver, settings: SlackSettings, body: Json) -> None:
    """Carry out a slash command, or ask for missing arguments."""
    of_runs = body.get("command") == settings.subagents_command
    group = CommandGroup.RUNS if of_runs else CommandGroup.CHAT
    rest = messages.spoken(str(body.get("text") or ""), "")
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
    asked = receiver.inbound.run_choices(admitted.user.identity, named, action=command.name)
    choices = await outcome(asked, f"/subagents {command.name}")
    if isinstance(choices, CommandReply):
        await admitted.give(choices)
        return
    if named and len(choices) == 1:
        await _open_send_form(admitted, body, choices[0][0])
        return
    menu = blocks.run_menu(choices, f"/subagents {command.name}")
    none = NONE_NAMED.format(named=one_line(named, 60)) if named else command.without_runs
    await admitted.say(WHICH if menu else none, below=menu)


# --- clicks, menus and forms --------------------------------------------------------------------


async def _submitted(receiver: SlackReceiver, body: Json, ack: AsyncAck) -> None:
    """Handle a submitted form; acknowledge it with its errors, for Slack to show in the form.

    Once it is acknowledged the form is closed, and an error is sent as a message instead.
    """
    view: Json = body.get("view") or {}
    if view.get("callback_id") != blocks.SEND_FORM:
        log.info("Nobody knows the form %s", view.get("callback_id"))
        return
    try:
        kept = dict(json.loads(str(view.get("private_metadata") or "{}")))
    except (ValueError, TypeError):
        kept = {}
    target = {name: value for name, value in kept.items() if isinstance(value, str)}
    fields: Json = (view.get("state") or {}).get("values") or {}
    field: Json = (fields.get(blocks.SEND_BLOCK) or {}).get(blocks.SEND_FIELD) or {}
    where = {"container": {"channel_id": target.get("channel"), "thread_ts": target.get("thread")}}

    async def handle(admitted: AdmittedInteraction) -> None:
        reply: CommandReply | None = CommandReply(text=OLD, failed=True)
        if run := target.get("run", ""):
            reply = await admitted.hear(f"/subagents send {run} {field.get('value') or ''}")
        if reply is not None and reply.failed and ack.response is None:
            wrong = {blocks.SEND_BLOCK: reply.text[:LONGEST_ERROR]}
            await ack(response_action="errors", errors=wrong)
        elif reply is not None:
            await admitted.give(reply)

    await receiver.admit(body | where, handle)


async def _open_send_form(admitted: AdmittedInteraction, body: Json, run: str) -> None:
    """Open the form for a message to a run; permission is checked when the form is submitted."""
    remembered = {"run": run, "channel": admitted.place.channel, "thread": admitted.place.thread}
    form = blocks.send_form(run, remembered=json.dumps(remembered))
    if not await _open_view(admitted, body, form):
        await admitted.say(CLOSED.format(run=run))


async def _open_view(admitted: AdmittedInteraction, body: Json, view: Json) -> bool:
    """Open a form or a window for the user of an interaction; return True on success."""
    sender, workspace = admitted.receiver.outlet.sender, admitted.place.workspace
    trigger = str(body.get("trigger_id"))
    try:
        await sender.ask(workspace, AsyncWebClient.views_open, trigger_id=trigger, view=view)
    except DeliveryError as error:
        log.info("The window for %s is not open: %s", admitted.event_id, error)
        return False
    return True


async def _on_run(admitted: AdmittedInteraction, body: Json, action: Json) -> None:
    """Apply the command of a button to its run, or the command of a menu to the chosen run.

    Asks for the text of a command that has one.
    """
    name, run = str(action.get("action_id")).removeprefix(blocks.RUN), action.get("value")
    if chosen := action.get("selected_option"):
        # The id of the menu's block is the command.
        name, run = str(action.get("block_id")).removeprefix("/subagents "), chosen.get("value")
    command = admitted.receiver.inbound.command_table.get(CommandGroup.RUNS, name)
    if command is None or command.run is None:
        return
    if command.text is not None:
        await _open_send_form(admitted, body, str(run))
    else:
        await _carry_out(admitted, body, command.line({"run": str(run)}))


async def _carry_out(admitted: AdmittedInteraction, body: Json, command: str) -> None:
    """Carry out a command and show its result in the channel or, from the Home tab, in a window."""
    if admitted.place.channel:
        await admitted.carry_out(command)
    elif (reply := await admitted.hear(command)) is not None:
        if not await _open_view(admitted, body, blocks.reading(reply)):
            await admitted.give(reply)
        await show_home(admitted.receiver, admitted.user)


async def _more(admitted: AdmittedInteraction, body: Json, action: Json) -> None:
    """Show the next page, if the button contains a command that only shows something."""
    command = str(action.get("value"))
    typed = admitted.receiver.inbound.command_table.find(command)
    reads = typed and typed.command and typed.command.run and not typed.changes
    if reads and command.startswith("/"):
        await _carry_out(admitted, body, command)


async def _answer(admitted: AdmittedInteraction, body: Json, action: Json) -> None:
    """Answer a question, and show the answer in the message with the clicked button."""
    key, question = str(action.get("action_id")).removeprefix(blocks.ASK), str(action.get("value"))
    outlet, message = admitted.receiver.outlet, body.get("message") or {}
    asked = admitted.receiver.inbound.answer(
        admitted.user.identity, question, choice=key, place=admitted.place
    )
    reply = await outcome(asked, f"confirmation {question}")
    assert reply is not None, "Every answer is answered."
    if not reply.refused:
        shown = None
        if ts := message.get("ts"):
            texts = [
                str(block["text"]["text"])
                for block in message.get("blocks") or ()
                if block.get("type") == "section" and isinstance(block.get("text"), dict)
            ]
            mrkdwn = "\n".join(texts) or str(message.get("text") or "")
            shown = ShownQuestion(place=admitted.place, message_id=str(ts), mrkdwn=mrkdwn)
        label = written_out(str((action.get("text") or {}).get("text") or key))
        answer = decision(await outlet.names.of(admitted.user), label, key)
        await outlet.question_answered(question, admitted.place, answer, shown=shown)
    await admitted.give(reply)


#: The handlers of our buttons and menus, by their action id and value.
_BUTTONS: dict[re.Pattern[str], Clicked] = {
    re.compile(rf"{blocks.ASK}[a-z0-9]{{1,8}} [\w-]{{1,80}}"): _answer,
    re.compile(rf"(?:{_RUN_BUTTONS}|{blocks.CHOICE}) .*", re.DOTALL): _on_run,
    re.compile(rf"{blocks.MORE} .*", re.DOTALL): _more,
}


# --- Home ---------------------------------------------------------------------------------------


async def show_home(receiver: SlackReceiver, user: SlackUser) -> None:
    """Publish the current Home tab of a user. A `DeliveryError` is logged."""
    if refusal := receiver.reception.refusal(user, ""):
        view = blocks.notice_at_home(refusal.text)
    else:
        seen = await outcome(receiver.inbound.overview(user.identity), "the Home tab")
        if isinstance(seen, CommandReply):
            view = blocks.notice_at_home(UNKNOWN.format(reason=seen.text))
        else:
            view = blocks.home(seen)
    try:
        await receiver.outlet.sender.ask(
            user.workspace, AsyncWebClient.views_publish, user_id=user.account, view=view
        )
    except DeliveryError as error:
        log.info("The Home tab of %s is not shown: %s", user.account, error)
