"""What people say, change and delete, and what the app hears of it."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from bot.values import Json
from tests.fakes.slack.agents import Agents
from tests.fakes.slack.delivery import Deliveries, Delivery
from tests.fakes.slack.events import Events
from tests.fakes.slack.messages import Channel, Message
from tests.fakes.slack.shapes import Grant, Team, User
from tests.fakes.slack.streams import Streams
from tests.fakes.slack.surfaces import Surfaces
from tests.fakes.slack.uploads import Uploads
from tests.fakes.slack.world import World

#: Name, kind and content of a file that is sent along.
Sent = tuple[str, str, bytes]


@dataclass(slots=True)
class People:
    """Everything that people do without touching a button.

    Attributes:
        echo: Whether the app hears of its own messages, as Slack has it.
    """

    world: World
    events: Events
    deliveries: Deliveries
    uploads: Uploads
    agents: Agents
    streams: Streams
    surfaces: Surfaces
    echo: bool = True

    async def say(
        self,
        user: User,
        channel: Channel,
        text: str,
        *,
        mention: bool = False,
        thread: Message | str | None = None,
        files: Iterable[Sent] = (),
        attachments: Iterable[Json] = (),
        broadcast: bool = False,
        raw: bool = False,
    ) -> Message:
        """Say something, and return when the app has acknowledged what it heard of it.

        Args:
            user: Who; another bot too.
            channel: Where.
            text: As it is typed.
            mention: Our bot is mentioned, at the start.
            thread: A message of the thread that it is a reply in, or its id.
            files: What is sent along.
            attachments: Shared messages and link previews, as Slack shows them.
            broadcast: A reply that is shown in the channel too.
            raw: The text is in Slack's own terms already.
        """
        assert user.id in channel.members, f"{user.name} is not in #{channel.name}."
        team = home_of(channel)
        message = self.world.add_message(channel, user, thread_ts=_root(thread))
        message.text = text if raw else escaped(text)
        if mention:
            message.text = f"<@{team.bot.id}> {message.text}"
        message.blocks = [_rich_text(message.text)]
        message.attachments = list(attachments)
        message.files = [self.uploads.attach(*file, user) for file in files]
        if message.files or broadcast:
            message.subtype = "file_share" if message.files else "thread_broadcast"
        await self._send(message, self.events.posted(message, team))
        return message

    async def edit(self, message: Message, text: str, *, mention: bool = False) -> None:
        """Change what one has said."""
        team, before = home_of(message.channel), message.to_json()
        message.text = escaped(text)
        if mention:
            message.text = f"<@{team.bot.id}> {message.text}"
        message.blocks = [_rich_text(message.text)]
        message.edits += 1
        message.edited_ts = self.world.new_ts()
        await self._send(message, self.events.edited(message, before, team))

    async def delete(self, message: Message) -> None:
        """Delete a message; one with replies stays as a tombstone, which no one can answer."""
        team, before = home_of(message.channel), message.to_json()
        replies = [m for m in message.channel.messages.values() if m.thread_ts == message.ts]
        message.deleted = True
        if any(not reply.deleted for reply in replies):
            message.text, message.blocks = "This message was deleted.", []
            message.subtype = "tombstone"
            deliveries = self.events.edited(message, before, team)
        else:
            deliveries = self.events.deleted(message, before, team)
        await self._send(message, deliveries)

    async def redeliver(
        self,
        what: Message | Delivery,
        *,
        retry: int = 1,
        reason: str = "http_timeout",
        everywhere: bool = False,
    ) -> None:
        """Send the events of a message again, with the ids that they had.

        Args:
            what: A message that was said, or one event.
            retry: The number of the attempt.
            reason: In Slack's words.
            everywhere: Over every open socket at once.
        """
        for delivery in [what] if isinstance(what, Delivery) else list(what.events):
            await self.deliveries.send(delivery, number=retry, reason=reason, everywhere=everywhere)

    async def open_app(self, user: User, tab: str = "home") -> Delivery | None:
        """Open the Home tab of the app, or the messages with it."""
        event: Json = {
            "type": "app_home_opened",
            "user": user.id,
            "channel": self.world.dm(user).id,
            "tab": tab,
        }
        home = self.surfaces.homes.get(user.id)
        if home is not None and tab == "home":
            event["view"] = home.to_json()
        return await self.tell(event, user.team)

    async def stop(
        self, user: User, channel: Channel, thread_ts: str, *, force: bool = False
    ) -> Delivery | None:
        """Click the Stop that Slack itself shows while a session is processing."""
        state = self.agents.sessions.get((channel.id, thread_ts), "")
        shown = state == "processing" and user.id in channel.members
        assert shown or force, f"Slack shows no Stop in a session that is {state or 'not there'}."
        event: Json = {
            "type": "agent_session_stopped",
            "channel": channel.id,
            "thread_ts": thread_ts,
            "user": user.id,
            "streaming_message_ts": self.streams.stop_by_user(channel.id, thread_ts),
        }
        return await self.tell(event, home_of(channel), channel)

    async def uninstall(self, team: Team) -> None:
        """Remove the app from a workspace."""
        grant = team.grant
        assert grant is not None, f"The app is not installed in {team.name}."
        await self._revoke(team, grant, "account_inactive")
        await self.tell({"type": "app_uninstalled"}, team)
        team.grant = None

    async def revoke_tokens(self, team: Team) -> None:
        """Take the app's token away from it."""
        assert team.grant is not None, f"The app is not installed in {team.name}."
        await self._revoke(team, team.grant, "token_revoked")

    async def _revoke(self, team: Team, grant: Grant, error: str) -> None:
        grant.revoked = error
        event: Json = {"type": "tokens_revoked", "tokens": {"oauth": [], "bot": [grant.bot.id]}}
        await self.tell(event, team)

    def own_message(self, message: Message, before: Json | None) -> list[Delivery]:
        """Tell the app of its own message, without waiting."""
        if not self.echo:
            return []
        team = home_of(message.channel)
        if before is None:
            deliveries = self.events.posted(message, team)
        elif message.deleted:
            deliveries = self.events.deleted(message, before, team)
        else:
            deliveries = self.events.edited(message, before, team)
        for delivery in deliveries:
            self.deliveries.send_soon(delivery)
        return deliveries

    async def _send(self, message: Message, deliveries: list[Delivery]) -> None:
        heard = home_of(message.channel).bot.id in message.channel.members
        if heard:
            message.events += deliveries
            await self.deliveries.send_all(deliveries)

    async def tell(
        self, event: Json, team: Team, channel: Channel | None = None
    ) -> Delivery | None:
        """Send any event, and return when it is acknowledged or lost."""
        delivery = self.events.event(event, team, channel=channel)
        if delivery is not None:
            await self.deliveries.send(delivery)
        return delivery


def home_of(channel: Channel) -> Team:
    """Return the team through which the app is in a channel."""
    teams = (channel.team, *channel.shared_with)
    return next((team for team in teams if team.grant is not None), channel.team)


def escaped(text: str) -> str:
    """Return what a user typed as Slack passes it on."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _root(thread: Message | str | None) -> str:
    return thread.root_ts if isinstance(thread, Message) else thread or ""


def _rich_text(text: str) -> Json:
    section = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "block_id": uuid.uuid4().hex[:5], "elements": [section]}
