"""`chat.startStream`, `chat.appendStream`, `chat.stopStream`: one message that grows."""

import time
from dataclasses import dataclass

from bot.values import Json
from tests.fakes.slack.agents import SESSION, Agents
from tests.fakes.slack.chat import Tell
from tests.fakes.slack.limits import MAX_MARKDOWN, MAX_TEXT, check_blocks
from tests.fakes.slack.messages import Message, Stream
from tests.fakes.slack.shapes import SlackError
from tests.fakes.slack.web import Ask, Method
from tests.fakes.slack.world import World


@dataclass(slots=True)
class Streams:
    """The methods that stream.

    Attributes:
        on: Whether this app may stream at all.
        seconds: How long a stream lives.
    """

    world: World
    agents: Agents
    tell: Tell
    on: bool = True
    seconds: float = 300.0

    @property
    def methods(self) -> dict[str, Method]:
        return {
            "chat.startStream": self.start,
            "chat.appendStream": self.append,
            "chat.stopStream": self.stop,
        }

    def start(self, ask: Ask) -> Json:
        if not self.on:
            raise SlackError("channel_type_not_supported")
        channel = self.world.writable(ask.args.get("channel"), ask.grant)
        root = self.world.root_of(channel, ask.args.get("thread_ts") or "none")
        recipient = str(ask.args.get("recipient_user_id") or "")
        if channel.kind != "im":
            if not recipient:
                raise SlackError("missing_recipient_user_id")
            if not ask.args.get("recipient_team_id"):
                raise SlackError("missing_recipient_team_id")
            self.world.user(recipient)
        check_growth(ask.args)
        message = self.world.add_message(channel, ask.grant.bot, thread_ts=root)
        message.stream = Stream(time.monotonic(), recipient)
        self._grow(message, message.stream, ask.args)
        self.agents.replied(channel, root)
        if self.agents.agent:
            self.agents.change_session(channel.id, root, "processing")
        return {"channel": channel.id, "ts": message.ts}

    def append(self, ask: Ask) -> Json:
        message, stream = self._open(ask)
        check_growth(ask.args)
        if not (ask.args.get("markdown_text") or ask.args.get("chunks")):
            raise SlackError("no_text")
        self._grow(message, stream, ask.args)
        return {"channel": message.channel.id, "ts": message.ts}

    def stop(self, ask: Ask) -> Json:
        message, stream = self._open(ask)
        check_growth(ask.args)
        blocks = ask.args.get("blocks") or []
        check_blocks(blocks)
        status = str(ask.args.get("session_status") or "active")
        if status not in SESSION:
            raise SlackError("invalid_arguments")
        self._grow(message, stream, ask.args)
        if not (message.markdown or blocks or stream.tasks or message.blocks):
            raise SlackError("no_text")
        message.blocks += self.world.with_ids(blocks)
        message.metadata = ask.args.get("metadata") or {}
        stream.end = "stopped"
        if self.agents.agent:
            self.agents.change_session(message.channel.id, message.root_ts, status)
        self.tell(message, None)
        return {
            "channel": message.channel.id,
            "ts": message.ts,
            "message": message.to_json(),
        }

    def expire(self) -> None:
        """End every stream that is open, as Slack does after five minutes."""
        for channel in self.world.channels.values():
            for message in channel.messages.values():
                if message.stream is not None and not message.stream.end:
                    message.stream.end = "expired"

    def stop_by_user(self, channel: str, thread_ts: str) -> list[str]:
        """End the streams of a thread because a user wants it; return which."""
        stopped = []
        for message in self.world.channels[channel].messages.values():
            if message.thread_ts == thread_ts and message.stream and not message.stream.end:
                message.stream.end = "stopped_by_user"
                stopped.append(message.ts)
        return stopped

    def _open(self, ask: Ask) -> tuple[Message, Stream]:
        channel = self.world.writable(ask.args.get("channel"), ask.grant)
        message = self.world.message(channel, ask.args.get("ts"))
        if message.user is not ask.grant.bot:
            raise SlackError("message_not_owned_by_app")
        stream = message.stream
        if stream is not None and time.monotonic() - stream.started > self.seconds:
            stream.end = stream.end or "expired"
        if stream is not None and stream.end == "stopped_by_user" and "append" in ask.method:
            raise SlackError("stopped_by_user")
        if stream is None or stream.end:
            raise SlackError("message_not_in_streaming_state")
        return message, stream

    def _grow(self, message: Message, stream: Stream, args: Json) -> None:
        chunks = args.get("chunks") or []
        text = str(args.get("markdown_text") or "")
        if text or chunks:
            if stream.chunked is not None and stream.chunked != bool(chunks):
                raise SlackError("streaming_mode_mismatch")
            stream.chunked = bool(chunks)
        for chunk in chunks:
            match chunk["type"]:
                case "markdown_text":
                    text += chunk["text"]
                case "task_update":
                    stream.tasks[chunk["id"]] = stream.tasks.get(chunk["id"], {}) | chunk
                case "plan_update":
                    stream.plan = chunk["title"]
                case "blocks":
                    message.blocks += self.world.with_ids(chunk["blocks"])
        if len(message.markdown) + len(text) > MAX_TEXT:
            raise SlackError("msg_too_long")
        message.markdown += text


def check_growth(args: Json) -> None:
    """Refuse what Slack would not append."""
    text, chunks = args.get("markdown_text"), args.get("chunks")
    if text and chunks:
        raise SlackError("cannot_provide_both_markdown_text_and_chunks")
    if len(str(text or "")) > MAX_MARKDOWN:
        raise SlackError("msg_too_long")
    if chunks is not None and not isinstance(chunks, list):
        raise SlackError("invalid_chunks")
    for chunk in chunks or ():
        _check_chunk(chunk)


def _check_chunk(chunk: Json) -> None:
    match chunk.get("type"):
        case "markdown_text":
            good = 1 <= len(str(chunk.get("text") or "")) <= MAX_MARKDOWN
        case "task_update":
            known = chunk.get("status") in {"pending", "in_progress", "complete", "error"}
            texts = [str(chunk.get(key) or "") for key in ("title", "details", "output")]
            short = all(len(text) <= 256 for text in texts)
            good = bool(chunk.get("id")) and bool(texts[0]) and known and short
        case "plan_update":
            good = 1 <= len(str(chunk.get("title") or "")) <= 256
        case "blocks":
            check_blocks(chunk.get("blocks"))
            good = True
        case _:
            good = False
    if not good:
        raise SlackError("invalid_chunks")
