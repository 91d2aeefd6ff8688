"""`chat.*`: messages that the app posts, changes and deletes."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from bot.values import Json
from tests.fakes.slack.agents import Agents
from tests.fakes.slack.delivery import Delivery
from tests.fakes.slack.limits import MAX_TEXT, check_content
from tests.fakes.slack.messages import Channel, Message
from tests.fakes.slack.shapes import SlackError, User
from tests.fakes.slack.web import Ask, Method, flag
from tests.fakes.slack.world import World

#: Tells the app what happened to a message: (message, what it was before, or `None` when new).
Tell = Callable[[Message, Json | None], list[Delivery]]


@dataclass(slots=True)
class Chat:
    """The methods that write messages.

    Attributes:
        edit_window: For how many seconds a message can be changed; `None` for ever.
    """

    world: World
    agents: Agents
    tell: Tell
    edit_window: float | None = None

    @property
    def methods(self) -> dict[str, Method]:
        return {
            "chat.postMessage": self.post,
            "chat.update": self.update,
            "chat.delete": self.delete,
            "chat.postEphemeral": self.post_ephemeral,
            "chat.getPermalink": self.permalink,
        }

    def post(self, ask: Ask) -> Json:
        channel = self.world.writable(ask.args.get("channel"), ask.grant)
        check_content(ask.args)
        root = self.world.root_of(channel, ask.args.get("thread_ts"))
        message = self.world.add_message(channel, ask.grant.bot, thread_ts=root)
        self.write(message, ask.args)
        message.broadcast = ask.flag("reply_broadcast")
        if message.broadcast:
            message.subtype = "thread_broadcast"
        self.agents.replied(channel, message.root_ts)
        self.tell(message, None)
        return {"channel": channel.id, "ts": message.ts, "message": message.to_json()}

    def write(self, message: Message, args: Json) -> None:
        """Put the content of a call into a message."""
        text = str(args.get("text") or "")
        message.truncated = len(text) > MAX_TEXT
        message.text = text[:MAX_TEXT]
        message.markdown = str(args.get("markdown_text") or "")
        message.blocks = self.world.with_ids(args.get("blocks") or [])
        message.attachments = args.get("attachments") or []
        message.metadata = args.get("metadata") or {}
        message.link_names = flag(args.get("link_names")) or False
        message.parse = str(args.get("parse") or "")
        message.unfurl_links = flag(args.get("unfurl_links"))
        message.unfurl_media = flag(args.get("unfurl_media"))

    def update(self, ask: Ask) -> Json:
        message = self._own(ask, "cant_update_message")
        if message.channel.archived:
            raise SlackError("is_inactive")
        if message.streaming:
            raise SlackError("streaming_state_conflict")
        if self.edit_window is not None and time.time() - float(message.ts) > self.edit_window:
            raise SlackError("edit_window_closed")
        check_content(ask.args, updating=True)
        before = message.to_json()
        self._replace(message, ask.args)
        message.edits += 1
        message.edited_ts = self.world.new_ts()
        self.tell(message, before)
        text = message.text or message.markdown
        return {
            "channel": message.channel.id,
            "ts": message.ts,
            "text": text,
            "message": message.to_json(),
        }

    def _replace(self, message: Message, args: Json) -> None:
        """Change what the call gives; its text alone removes the blocks, and so does Markdown."""
        kept = {"blocks": message.blocks, "metadata": message.metadata}
        if "text" in args or "markdown_text" in args:
            del kept["blocks"]
        files, unfurls = message.files, (message.unfurl_links, message.unfurl_media)
        self.write(message, kept | args)
        message.files = files
        message.unfurl_links, message.unfurl_media = unfurls
        message.stream = None

    def delete(self, ask: Ask) -> Json:
        message = self._own(ask, "cant_delete_message")
        if message.streaming:
            raise SlackError("cant_delete_message")
        before = message.to_json()
        message.deleted = True
        self.tell(message, before)
        return {"channel": message.channel.id, "ts": message.ts}

    def _own(self, ask: Ask, error: str) -> Message:
        channel = self.world.channel(ask.args.get("channel"), ask.grant)
        message = self.world.message(channel, ask.args.get("ts"))
        if message.user is not ask.grant.bot:
            raise SlackError(error)
        return message

    def post_ephemeral(self, ask: Ask) -> Json:
        channel = self.world.writable(ask.args.get("channel"), ask.grant)
        check_content(ask.args)
        if len(str(ask.args.get("text") or "")) > MAX_TEXT:
            raise SlackError("msg_too_long")
        viewer = self.world.user(ask.args.get("user"))
        if viewer.id not in channel.members:
            raise SlackError("user_not_in_channel")
        root = self.world.root_of(channel, ask.args.get("thread_ts"))
        message = self.whisper(channel, viewer, ask.args)
        message.thread_ts = root
        return {"message_ts": message.ts}

    def whisper(self, channel: Channel, viewer: User, args: Json) -> Message:
        """Show something to one user."""
        message = self.world.add_ephemeral(channel, viewer)
        self.write(message, args)
        return message

    def permalink(self, ask: Ask) -> Json:
        channel = self.world.channel(ask.args.get("channel"), ask.grant)
        message = self.world.message(channel, ask.args.get("message_ts"))
        link = f"https://{channel.team.domain}.slack.com/archives/{channel.id}/p"
        return {"channel": channel.id, "permalink": link + message.ts.replace(".", "")}
