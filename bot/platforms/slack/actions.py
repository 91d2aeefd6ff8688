"""Handles clicks, menus and forms; their state is in the payload, not in memory."""

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping

from slack_sdk.web.async_client import AsyncWebClient

from bot.conversations.command_lines import CommandGroup
from bot.conversations.command_table import COMMANDS
from bot.errors import DeliveryError
from bot.platforms.base import CommandReply
from bot.platforms.messaging.intake import outcome
from bot.platforms.messaging.texts import decision
from bot.platforms.slack import blocks, home
from bot.platforms.slack.interactions import AdmittedInteraction, SlackReceiver
from bot.platforms.slack.outlet import ShownQuestion
from bot.platforms.slack.texts import written_out
from bot.values import Json

log = logging.getLogger(__name__)

OLD = "This form is from an older version of me. Type `/subagents send` and choose the run again."
_CHOICE, _QUESTION = re.compile(rf"{blocks.ASK}[a-z0-9]{{1,8}}"), re.compile(r"[\w-]{1,80}")
CLOSED = "Slack did not open the form. Type `/subagents send {run}` and your message instead."
#: Most characters of an error that a form shows below its field.
LONGEST_ERROR = 2_000


async def clicked(receiver: SlackReceiver, body: Json) -> None:
    """Handle a click or a choice from a menu."""
    for action in body.get("actions") or ():
        handle = _handler_of(action)
        if handle is None:
            log.info("Nobody knows the button %s", action.get("action_id"))
            continue

        async def attended(
            admitted: AdmittedInteraction,
            handle: "_Clicked" = handle,
            action: Json = action,
        ) -> None:
            await handle(admitted, body, action)

        await receiver.admit(body, attended)
        return


async def submitted(receiver: SlackReceiver, body: Json) -> Json:
    """Handle a submitted form; return its errors by block, for Slack to show in the form.

    After Slack's timeout the form is closed, and an error is sent as a message instead.
    """
    view: Json = body.get("view") or {}
    if view.get("callback_id") != blocks.SEND_FORM:
        log.info("Nobody knows the form %s", view.get("callback_id"))
        return {}
    target = _remembered(view)
    fields: Json = (view.get("state") or {}).get("values") or {}
    field: Json = (fields.get(blocks.SEND_BLOCK) or {}).get(blocks.SEND_FIELD) or {}
    where = {"container": {"channel_id": target.get("channel"), "thread_ts": target.get("thread")}}
    wrong: Json = {}
    closed = asyncio.Event()

    async def handle(admitted: AdmittedInteraction) -> None:
        reply: CommandReply | None = CommandReply(text=OLD, failed=True)
        if run := target.get("run", ""):
            reply = await admitted.hear(f"/subagents send {run} {field.get('value') or ''}")
        if reply is not None and reply.failed and not closed.is_set():
            wrong[blocks.SEND_BLOCK] = reply.text[:LONGEST_ERROR]
        elif reply is not None:
            await receiver.outlet.answers.give(admitted.recipient, reply)

    await receiver.within_timeout(receiver.admit(body | where, handle), "a Slack form")
    closed.set()
    return wrong


async def open_send_form(admitted: AdmittedInteraction, body: Json, run: str) -> None:
    """Open the form for a message to a run; permission is checked when the form is submitted."""
    remembered = {"run": run, "channel": admitted.place.channel, "thread": admitted.place.thread}
    form = blocks.send_form(run, remembered=json.dumps(remembered))
    try:
        await admitted.receiver.outlet.sender.ask(
            admitted.place.workspace,
            AsyncWebClient.views_open,
            trigger_id=str(body.get("trigger_id")),
            view=form,
        )
    except DeliveryError as error:
        log.info("The form for %s is not open: %s", admitted.event_id, error)
        await admitted.say(CLOSED.format(run=run))


def _remembered(view: Json) -> Mapping[str, str]:
    try:
        kept = json.loads(str(view.get("private_metadata") or "{}"))
    except ValueError:
        return {}
    if not isinstance(kept, dict):
        return {}
    return {name: value for name, value in kept.items() if isinstance(value, str)}


async def _on_run(admitted: AdmittedInteraction, body: Json, name: str, run: str) -> None:
    """Apply a command to a run, after asking for the text of a command that has one."""
    command = admitted.receiver.inbound.command_table.get(CommandGroup.RUNS, name)
    if command is None or command.run is None:
        return
    if command.text is not None:
        await open_send_form(admitted, body, run)
    else:
        await _carry_out(admitted, body, command.line({"run": run}))


async def _carry_out(admitted: AdmittedInteraction, body: Json, command: str) -> None:
    """Carry out a command and show its result in the channel or, from the Home tab, in a window."""
    if admitted.place.channel:
        await admitted.carry_out(command)
        return
    reply = await admitted.hear(command)
    if reply is None:
        return
    try:
        await admitted.receiver.outlet.sender.ask(
            admitted.place.workspace,
            AsyncWebClient.views_open,
            trigger_id=str(body.get("trigger_id")),
            view=blocks.reading(reply),
        )
    except DeliveryError as error:
        log.info("The answer to %s opens no window: %s", admitted.event_id, error)
        await admitted.receiver.outlet.answers.give(admitted.recipient, reply)
    await home.show(admitted.receiver, admitted.person)


async def _more(admitted: AdmittedInteraction, body: Json, action: Json) -> None:
    """Show the next page, if the button contains a command that only shows something."""
    command = str(action.get("value"))
    typed = admitted.receiver.inbound.command_table.find(command)
    reads = typed and typed.command and typed.command.run and not typed.changes
    if reads and command.startswith("/"):
        await _carry_out(admitted, body, command)


async def _choose(admitted: AdmittedInteraction, body: Json, action: Json) -> None:
    """Apply the action of a menu to the chosen run; the id of the block names the action."""
    name = str(action.get("block_id")).removeprefix("/subagents ")
    await _on_run(admitted, body, name, str((action.get("selected_option") or {}).get("value")))


async def _answer(admitted: AdmittedInteraction, body: Json, action: Json) -> None:
    key, question = str(action.get("action_id")).removeprefix(blocks.ASK), str(action.get("value"))
    receiver = admitted.receiver
    asked = receiver.inbound.answer(admitted.person.identity, question, choice=key)
    reply = await outcome(asked, f"confirmation {question}")
    assert reply is not None, "Every answer is answered."
    if not reply.refused:
        label = written_out(str((action.get("text") or {}).get("text") or key))
        answer = decision(await receiver.names.of(admitted.person), label, key)
        await receiver.outlet.question_answered(
            question, admitted.place, answer, shown=_question(admitted, body)
        )
    await receiver.outlet.answers.give(admitted.recipient, reply)


def _question(admitted: AdmittedInteraction, body: Json) -> ShownQuestion | None:
    """Return the question's message with the clicked button; `None` if the payload has none."""
    message: Json = body.get("message") or {}
    if not message.get("ts"):
        return None
    texts = [
        str(block["text"]["text"])
        for block in message.get("blocks") or ()
        if block.get("type") == "section" and isinstance(block.get("text"), dict)
    ]
    mrkdwn = "\n".join(texts) or str(message.get("text") or "")
    return ShownQuestion(place=admitted.place, message_id=str(message["ts"]), mrkdwn=mrkdwn)


async def _click_run(admitted: AdmittedInteraction, body: Json, action: Json) -> None:
    name = str(action.get("action_id")).removeprefix(blocks.RUN)
    await _on_run(admitted, body, name, str(action.get("value")))


def _handler_of(action: Json) -> "_Clicked | None":
    """Return the handler of a click; `None` if no message of ours has such a button."""
    action_id = str(action.get("action_id"))
    if action_id.startswith(blocks.ASK):
        known = _CHOICE.fullmatch(action_id) and _QUESTION.fullmatch(str(action.get("value") or ""))
        return _answer if known else None
    name = action_id.removeprefix(blocks.RUN)
    if name != action_id and any(each.button and each.name == name for each in COMMANDS.commands):
        return _click_run
    return {blocks.MORE: _more, blocks.CHOICE: _choose}.get(action_id)


_Clicked = Callable[[AdmittedInteraction, Json, Json], Awaitable[None]]
