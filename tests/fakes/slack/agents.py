"""`assistant.threads.*` and `agents.sessions.*`: what Slack shows while the app is at work."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from bot.values import Json
from tests.fakes.slack.limits import is_ts
from tests.fakes.slack.messages import Channel
from tests.fakes.slack.shapes import SlackError
from tests.fakes.slack.web import Ask, Method
from tests.fakes.slack.world import World

SESSION = ("active", "processing", "suspended", "closed")
#: How long Slack shows a status when no message comes.
STATUS_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Status:
    """One call that set a status.

    Attributes:
        kind: `text` is a line such as "is thinking…", `session` one of four states.
        time: On the monotonic clock.
    """

    kind: Literal["text", "session"]
    channel: str
    thread_ts: str
    status: str
    time: float
    loading_messages: tuple[str, ...] = ()


@dataclass(slots=True)
class Agents:
    """What is shown in threads while the app is at work.

    Attributes:
        agent: Whether the app declares itself an agent.
        statuses: Every call that set one, in order.
        texts: The line that is shown now, by (channel, thread).
        sessions: The state of each session, by (channel, thread).
        titles: Of threads.
        prompts: Suggested prompts, by channel.
    """

    world: World
    hears_stop: Callable[[], bool]
    agent: bool = True
    statuses: list[Status] = field(default_factory=list)
    texts: dict[tuple[str, str], Status] = field(default_factory=dict)
    sessions: dict[tuple[str, str], str] = field(default_factory=dict)
    titles: dict[tuple[str, str], str] = field(default_factory=dict)
    prompts: dict[str, list[Json]] = field(default_factory=dict)

    @property
    def methods(self) -> dict[str, Method]:
        return {
            "assistant.threads.setStatus": self.set_status,
            "assistant.threads.setTitle": self.set_title,
            "assistant.threads.setSuggestedPrompts": self.set_prompts,
            "agents.sessions.setStatus": self.set_session,
            "agents.sessions.rename": self.set_title,
        }

    def text(self, channel: str, thread_ts: str) -> str:
        """Return the line that is shown in a thread; empty for none."""
        shown = self.texts.get((channel, thread_ts))
        if shown is None or time.monotonic() - shown.time > STATUS_SECONDS:
            return ""
        return shown.status

    def replied(self, channel: Channel, thread_ts: str) -> None:
        """Clear the line: a message of the app does that. A session's state stays."""
        self.texts.pop((channel.id, thread_ts), None)

    def set_status(self, ask: Ask) -> Json:
        key = self._thread(ask)
        loading = tuple(ask.args.get("loading_messages") or ())
        if len(loading) > 10 or "status" not in ask.args:
            raise SlackError("invalid_arguments")
        status = Status("text", *key, str(ask.args["status"]), time.monotonic(), loading)
        self.statuses.append(status)
        if status.status:
            self.texts[key] = status
        else:
            self.texts.pop(key, None)
        return {}

    def set_session(self, ask: Ask) -> Json:
        if not self.agent:
            # Slack documents that only agents may, and not what it answers.
            raise SlackError("access_denied")
        key = self._thread(ask)
        status = str(ask.args.get("status"))
        if status not in SESSION:
            problem = "must be a valid enum value [json-pointer:/status]"
            raise SlackError("invalid_arguments", problem)
        self.change_session(*key, status)
        if title := str(ask.args.get("title") or ""):
            self.titles.setdefault(key, title)
        answer = {"status": status, "agent_status": status, "title": self.titles.get(key, "")}
        if not self.hears_stop():
            answer["warning"] = "missing_agent_session_stopped_event_subscription"
        return answer

    def change_session(self, channel: str, thread_ts: str, status: str) -> None:
        """Set the state of a session, as a call or a stream does."""
        self.sessions[channel, thread_ts] = status
        self.statuses.append(Status("session", channel, thread_ts, status, time.monotonic()))

    def set_title(self, ask: Ask) -> Json:
        title = str(ask.args.get("title") or "")
        if not 1 <= len(title) <= 200:
            raise SlackError("invalid_arguments")
        self.titles[self._thread(ask)] = title
        return {}

    def set_prompts(self, ask: Ask) -> Json:
        channel = self.world.channel(ask.args.get("channel_id"), ask.grant)
        if ask.args.get("thread_ts"):
            self._thread(ask)
        prompts: list[Json] = ask.args.get("prompts") or []
        complete = all(prompt.get("title") and prompt.get("message") for prompt in prompts)
        if not complete or not 1 <= len(prompts) <= 4:
            raise SlackError("invalid_arguments")
        self.prompts[channel.id] = prompts
        return {}

    def _thread(self, ask: Ask) -> tuple[str, str]:
        channel = self.world.channel(ask.args.get("channel_id"), ask.grant)
        thread_ts = ask.args.get("thread_ts")
        root = channel.messages.get(str(thread_ts))
        if not is_ts(thread_ts) or root is None or root.deleted:
            raise SlackError("invalid_thread_ts")
        return channel.id, root.root_ts
