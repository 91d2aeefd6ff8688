"""Handles interactions on Slack: access, de-duplication, and private answers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from slack_bolt.async_app import AsyncAck

from bot.errors import DeliveryError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.handler import InboundHandler
from bot.platforms.messaging.intake import TROUBLE, outcome
from bot.platforms.slack import blocks
from bot.platforms.slack.clients import Clients, Installed
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

#: A handler of a payload, which may acknowledge it with an answer.
Handler = Callable[[Json, AsyncAck], Coroutine[Any, Any, None]]

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
    tasks: Tasks
    ack_seconds: float = ACK_SECONDS
    where_seconds: float = WHERE_SECONDS

    def in_time(self, handle: Handler) -> Handler:
        """Acknowledge a payload after its handler, which continues after `ack_seconds`."""

        async def limited(body: Json, ack: AsyncAck) -> None:
            task = self.tasks.start(handle(body, ack), name=handle.__name__)
            done, _ = await asyncio.wait({task}, timeout=self.ack_seconds)
            for each in done:
                each.result()
            if ack.response is None:
                await ack()

        return limited

    async def where(self, body: Json) -> tuple[str, Installed]:
        """Return the workspace of a payload and the bot's identity there.

        Raises:
            RefusedError: The bot is in none of the workspaces that the payload names.
            DeliveryError: The installation cannot be looked up now.
        """
        return await self.clients.find(*workspaces_of(body))

    async def admit(self, body: Json, handle: "Handle") -> None:
        """Check access and handle an interaction once; errors are logged and sent to the user."""
        event_id = f"interaction:{body.get('trigger_id', '')}"
        if not self.reception.first(event_id):
            log.info("The %s was delivered again", event_id)
            return
        with self.reception.tracking():
            try:
                workspace, installed = await self.where(body)
            except DeliveryError as error:
                log.warning("The %s is not heard: %s", event_id, error)
                return
            container: Json = body.get("container") or {}
            message: Json = body.get("message") or {}
            channel: Json = body.get("channel") or {}
            channel_id = body.get("channel_id") or container.get("channel_id") or channel.get("id")
            thread = container.get("thread_ts") or message.get("thread_ts")
            user = interacting_user_of(body, workspace, installed.enterprise)
            admitted = AdmittedInteraction(
                receiver=self,
                event_id=event_id,
                user=user,
                place=user.place(str(channel_id or ""), str(thread or "")),
                response_url=str(body.get("response_url") or ""),
            )
            try:
                if refusal := self.reception.refusal(user, admitted.place.channel):
                    await admitted.say(refusal.text)
                else:
                    await handle(admitted)
            except Exception:
                log.exception("The %s failed", event_id)
                with suppress(DeliveryError):
                    await admitted.say(TROUBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedInteraction:
    """A click, a form or a slash command of an admitted user.

    Attributes:
        event_id: The id of the interaction, the same for every delivery.
        place: The place; without a channel in the Home tab.
        response_url: The address at which Slack accepts answers; empty for none.
    """

    receiver: SlackReceiver
    event_id: str
    user: SlackUser
    place: Place
    response_url: str = ""

    async def hear(self, text: str) -> CommandReply | None:
        """Pass a text to the core as if the user had typed it as a message."""
        incoming = Incoming(
            event_id=self.event_id,
            user=self.user.identity,
            user_name=await self.receiver.outlet.names.of(self.user),
            place=self.place,
            text=text,
        )
        return await outcome(self.receiver.inbound.receive(incoming), self.event_id)

    async def carry_out(self, text: str) -> None:
        """Carry out a command and answer the user in private."""
        reply = await self.hear(text)
        if reply is not None:  # else another process carries out the command
            await self.give(reply)

    async def give(self, reply: CommandReply) -> None:
        """Send the answer of a command to the user in private."""
        await self.say(reply.text, below=blocks.more_button(reply))

    async def say(self, text: str, *, below: tuple[Json, ...] = ()) -> None:
        """Send a text, with blocks below it, to the user in private."""
        answers, account, url = self.receiver.outlet.answers, self.user.account, self.response_url
        await answers.say(self.place, account, text, below=below, response_url=url)


Handle = Callable[[AdmittedInteraction], Awaitable[None]]
