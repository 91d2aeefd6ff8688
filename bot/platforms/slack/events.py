"""What Slack tells besides clicks and commands: each kind goes to whoever it is for."""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from bot.platforms.base import CommandReply
from bot.platforms.slack import home
from bot.platforms.slack.answers import Asker
from bot.platforms.slack.intake import Listener
from bot.platforms.slack.people import Person, speaker_of
from bot.platforms.slack.visits import Desk
from bot.values import Json

log = logging.getLogger(__name__)

#: Told of a workspace where the bot is no longer.
Removed = Callable[[str], Awaitable[None]]


class Events:
    """Hands events on.

    Args:
        desk: Who hears, and how to answer.
        listener: Takes messages.
        removed: Forgets a workspace.
    """

    def __init__(self, desk: Desk, listener: Listener, removed: Removed) -> None:
        self._desk = desk
        self._listener = listener
        self._removed = removed
        self._takers: Mapping[str, Callable[[Json], Coroutine[Any, Any, None]]] = {
            "app_home_opened": self._open_home,
            "agent_session_stopped": self._stop,
            "app_uninstalled": self._remove,
            "tokens_revoked": self._revoke,
        }

    async def take(self, body: Json) -> None:
        """Take an event; what nobody is interested in is taken as well.

        Raises:
            NotHeardError: It is a message that is not stored yet.
            DeliveryError: Where it comes from cannot be told now.
        """
        event: Json = body.get("event") or {}
        kind = str(event.get("type"))
        if kind in {"message", "app_mention"}:
            await self._listener.take(body)
        elif taker := self._takers.get(kind):
            await self._desk.for_a_while(taker(body), f"a Slack event: {kind}")

    async def _who(self, body: Json) -> Person | None:
        """Return who did what an event tells of, the first time that it comes."""
        if not self._desk.reception.first(("event", body.get("event_id"))):
            log.info("The event %s was delivered again", body.get("event_id"))
            return None
        found = await self._desk.where(body)
        event: Json = body["event"]
        if found is None or not event.get("user"):
            return None
        workspace, installed = found
        return speaker_of(event, body, workspace, installed.enterprise)

    async def _open_home(self, body: Json) -> None:
        if body["event"].get("tab") == "home" and (person := await self._who(body)):
            await home.show(self._desk, person)

    async def _stop(self, body: Json) -> None:
        """Stop an answer for which somebody clicked Slack's own Stop."""
        person = await self._who(body)
        if person is None:
            return
        event: Json = body["event"]
        place = person.place(str(event.get("channel") or ""), str(event.get("thread_ts") or ""))
        if self._desk.reception.refusal(person, place.channel):
            return
        # Delivered again later, it must not stop the next answer.
        event_id = f"event:{body.get('event_id')}"
        asked = self._desk.ears.stop_turn(person.identity, place, event_id=event_id)
        reply: CommandReply | None = await self._desk.outcome(asked, "Slack's Stop")
        if reply is not None:
            asker = Asker(place=place, account=person.account)
            await self._desk.outlet.answers.give(asker, reply)

    async def _remove(self, body: Json) -> None:
        if found := await self._desk.where(body):
            await self._removed(found[0])

    async def _revoke(self, body: Json) -> None:
        """Forget a workspace that has taken the bot's own token away."""
        found = await self._desk.where(body)
        revoked = (body["event"].get("tokens") or {}).get("bot") or ()
        if found and found[1].user in revoked:
            await self._removed(found[0])
