"""Dispatches Slack events by type to their handlers."""

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from bot.platforms.slack import home
from bot.platforms.slack.answers import Recipient
from bot.platforms.slack.intake import SlackMessageReceiver
from bot.platforms.slack.interactions import AdmittedInteraction, SlackReceiver
from bot.platforms.slack.people import SlackUser, speaker_of
from bot.values import Json

log = logging.getLogger(__name__)


class Events:
    """Dispatches events.

    Args:
        receiver: The shared dependencies of the handlers.
        listener: Handles messages.
    """

    def __init__(self, receiver: SlackReceiver, listener: SlackMessageReceiver) -> None:
        self._receiver = receiver
        self._listener = listener
        self._handlers: Mapping[str, Callable[[Json], Coroutine[Any, Any, None]]] = {
            "app_home_opened": self._open_home,
            "agent_session_stopped": self._stop,
            "app_uninstalled": self._uninstall,
            "tokens_revoked": self._uninstall,
        }

    async def take(self, body: Json) -> None:
        """Handle an event; ignore types without a handler.

        Raises:
            NotHeardError: The event is a message that is not stored yet.
            DeliveryError: The workspace of the event cannot be determined now.
        """
        event: Json = body.get("event") or {}
        kind = str(event.get("type"))
        if kind in {"message", "app_mention"}:
            await self._listener.take(body)
        elif handler := self._handlers.get(kind):
            await self._receiver.within_timeout(handler(body), f"a Slack event: {kind}")

    async def _who(self, body: Json) -> SlackUser | None:
        """Return the user who caused an event; `None` for a repeated delivery or without a user."""
        if not self._receiver.reception.first(("event", body.get("event_id"))):
            log.info("The event %s was delivered again", body.get("event_id"))
            return None
        found = await self._receiver.where(body)
        event: Json = body["event"]
        if found is None or not event.get("user"):
            return None
        workspace, installed = found
        return speaker_of(event, body, workspace, installed.enterprise)

    async def _open_home(self, body: Json) -> None:
        if body["event"].get("tab") == "home" and (person := await self._who(body)):
            await home.show(self._receiver, person)

    async def _stop(self, body: Json) -> None:
        """Stop the answer after a click on Slack's own Stop button."""
        person = await self._who(body)
        if person is None:
            return
        event: Json = body["event"]
        place = person.place(str(event.get("channel") or ""), str(event.get("thread_ts") or ""))
        if self._receiver.reception.refusal(person, place.channel):
            return
        # A later repeated delivery must not stop the next answer.
        event_id = f"event:{body.get('event_id')}"
        recipient = Recipient(place=place, account=person.account)
        admitted = AdmittedInteraction(
            receiver=self._receiver,
            event_id=event_id,
            person=person,
            place=place,
            recipient=recipient,
        )
        await admitted.carry_out("/retinue stop")

    async def _uninstall(self, body: Json) -> None:
        """Delete the installation of a workspace that removed the bot or revoked its token."""
        found = await self._receiver.where(body)
        event: Json = body["event"]
        revoked = (event.get("tokens") or {}).get("bot") or ()
        if found and (event["type"] == "app_uninstalled" or found[1].user in revoked):
            await self._receiver.clients.remove(found[0])
