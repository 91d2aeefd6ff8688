"""Handles interactions on Slack: access, de-duplication, and private answers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from bot.errors import DeliveryError
from bot.platforms.base import CommandReply, InboundHandler, Incoming
from bot.platforms.messaging.intake import TROUBLE, outcome
from bot.platforms.slack.answers import Recipient
from bot.platforms.slack.clients import Clients, Installed
from bot.platforms.slack.names import Names
from bot.platforms.slack.outlet import SlackOutlet
from bot.platforms.slack.people import (
    SlackAccessPolicy,
    SlackUser,
    interacting_user_of,
    workspaces_of,
)
from bot.tasks import Tasks
from bot.values import Json, Place

log = logging.getLogger(__name__)

Result = TypeVar("Result")


#: Timeout for the handling of a payload, in seconds: Slack waits 3 seconds for an acknowledgement,
#: including the network.
ACK_SECONDS = 2.0
WHERE_SECONDS = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackReceiver:
    """The shared dependencies of the handlers on Slack.

    Attributes:
        tasks: Owns the work that continues after the acknowledgement.
        ack_seconds: Timeout before a payload is acknowledged.
        where_seconds: Timeout for the lookup of a payload's workspace, a part of `ack_seconds`.
    """

    inbound: InboundHandler
    clients: Clients
    outlet: SlackOutlet
    reception: SlackAccessPolicy
    names: Names
    tasks: Tasks
    ack_seconds: float = ACK_SECONDS
    where_seconds: float = WHERE_SECONDS

    async def within_timeout(self, work: Coroutine[Any, Any, Result], name: str) -> Result | None:
        """Return the result of some work, or `None` after `ack_seconds`.

        After the timeout the work continues in the background.
        """
        task = self.tasks.start(work, name=name)
        done, _ = await asyncio.wait({task}, timeout=self.ack_seconds)
        return task.result() if done else None

    async def where(self, body: Json) -> tuple[str, Installed] | None:
        """Return the workspace of a payload and the bot's identity there; `None` if unknown.

        Raises:
            DeliveryError: The installation cannot be looked up now.
        """
        return await self.clients.find(workspaces_of(body))

    async def admit(self, body: Json, handle: "Handle") -> None:
        """Check access and handle an interaction once; errors are logged and sent to the user."""
        event_id = f"interaction:{body.get('trigger_id', '')}"
        if not self.reception.first(event_id):
            log.info("The %s was delivered again", event_id)
            return
        with self.reception.tracking():
            try:
                admitted = await self._admitted(body, event_id)
            except DeliveryError as error:
                log.warning("The %s is not heard: %s", event_id, error)
                return
            if admitted is None:
                return
            try:
                await handle(admitted)
            except Exception:
                log.exception("The %s failed", event_id)
                with suppress(DeliveryError):
                    await admitted.say(TROUBLE)

    async def _admitted(self, body: Json, event_id: str) -> "AdmittedInteraction | None":
        """Return an admitted interaction; `None` if access is denied, after a notice."""
        found = await self.where(body)
        if found is None:
            log.warning("The %s came from a workspace where the bot is not", event_id)
            return None
        workspace, installed = found
        person = interacting_user_of(body, workspace, installed.enterprise)
        container: Json = body.get("container") or {}
        message: Json = body.get("message") or {}
        channel: Json = body.get("channel") or {}
        channel_id = body.get("channel_id") or container.get("channel_id") or channel.get("id")
        thread = container.get("thread_ts") or message.get("thread_ts")
        place = person.place(str(channel_id or ""), str(thread or ""))
        url = str(body.get("response_url") or "")
        recipient = Recipient(place=place, account=person.account, response_url=url)
        admitted = AdmittedInteraction(
            receiver=self, event_id=event_id, person=person, place=place, recipient=recipient
        )
        refusal = self.reception.refusal(person, place.channel)
        if refusal is not None:
            await admitted.say(refusal.text)
            return None
        return admitted


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedInteraction:
    """A click, a form or a slash command of an admitted user.

    Attributes:
        event_id: The id of the interaction, the same for every delivery.
        place: The place; without a channel in the Home tab.
        recipient: The recipient of answers.
    """

    receiver: SlackReceiver
    event_id: str
    person: SlackUser
    place: Place
    recipient: Recipient

    async def hear(self, text: str) -> CommandReply | None:
        """Pass a text to the core as if the user had typed it as a message."""
        incoming = Incoming(
            event_id=self.event_id,
            user=self.person.identity,
            user_name=await self.receiver.names.of(self.person),
            place=self.place,
            text=text,
        )
        return await outcome(self.receiver.inbound.receive(incoming), self.event_id)

    async def carry_out(self, text: str) -> None:
        """Carry out a command and answer the user in private."""
        reply = await self.hear(text)
        if reply is not None:  # else another process carries out the command
            await self.receiver.outlet.answers.give(self.recipient, reply)

    async def say(self, text: str) -> None:
        """Send a text to the user in private."""
        await self.receiver.outlet.answers.say(self.recipient, text)


Handle = Callable[[AdmittedInteraction], Awaitable[None]]
