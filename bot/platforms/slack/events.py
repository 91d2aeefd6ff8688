"""Handles Slack's events: messages, the Home tab, Slack's own Stop button, removals of the bot."""

import logging

from slack_bolt.async_app import AsyncApp

from bot.platforms.slack.actions import show_home
from bot.platforms.slack.intake import SlackMessageReceiver
from bot.platforms.slack.interactions import AdmittedInteraction, SlackReceiver
from bot.platforms.slack.people import SlackUser, speaker_of
from bot.values import Json

log = logging.getLogger(__name__)


def register(app: AsyncApp, receiver: SlackReceiver, messages: SlackMessageReceiver) -> None:
    """Register the handlers of events."""

    @app.event("message")
    @app.event("app_mention")
    async def on_message(body: Json) -> None:
        await messages.take(body)

    @app.event("app_home_opened")
    @receiver.in_time
    async def on_home(body: Json) -> None:
        if body["event"].get("tab") == "home" and (person := await _who(receiver, body)):
            await show_home(receiver, person)

    @app.event("agent_session_stopped")
    @receiver.in_time
    async def on_stop(body: Json) -> None:
        """Stop the answer after a click on Slack's own Stop button."""
        person = await _who(receiver, body)
        if person is None:
            return
        event: Json = body["event"]
        place = person.place(str(event.get("channel") or ""), str(event.get("thread_ts") or ""))
        if receiver.reception.refusal(person, place.channel):
            return
        # A later repeated delivery must not stop the next answer.
        event_id = f"event:{body.get('event_id')}"
        admitted = AdmittedInteraction(
            receiver=receiver, event_id=event_id, person=person, place=place
        )
        await admitted.carry_out("/retinue stop")

    @app.event("app_uninstalled")
    @app.event("tokens_revoked")
    @receiver.in_time
    async def on_removal(body: Json) -> None:
        """Delete the installation of a workspace that removed the bot or revoked its token."""
        workspace, installed = await receiver.where(body)
        event: Json = body["event"]
        revoked = (event.get("tokens") or {}).get("bot") or ()
        if event["type"] == "app_uninstalled" or installed.user in revoked:
            await receiver.clients.remove(workspace)


async def _who(receiver: SlackReceiver, body: Json) -> SlackUser | None:
    """Return the user who caused an event; `None` for a repeated delivery or without a user."""
    if not receiver.reception.first(("event", body.get("event_id"))):
        log.info("The event %s was delivered again", body.get("event_id"))
        return None
    workspace, installed = await receiver.where(body)
    event: Json = body["event"]
    return speaker_of(event, body, workspace, installed.enterprise) if event.get("user") else None
