"""What an app answers to a command, a click or a form, by whichever way."""

import json
import time
from dataclasses import dataclass, field

from aiohttp import web

from bot.values import Json
from tests.fakes.patience import Pulse
from tests.fakes.slack.calls import Faults
from tests.fakes.slack.chat import Chat
from tests.fakes.slack.delivery import Attempt, Delivery
from tests.fakes.slack.limits import check_content
from tests.fakes.slack.messages import Channel, Message
from tests.fakes.slack.shapes import SlackError, User
from tests.fakes.slack.surfaces import Trigger, View
from tests.fakes.slack.web import cut_off
from tests.fakes.slack.world import World

MAX_USES, MAX_SECONDS = 5, 1800.0


@dataclass(eq=False, slots=True)
class Answer:
    """What a user sees as the answer to what they did.

    Attributes:
        response_url: Where the app may answer, five times within half an hour.
        sent: Whether the app heard of it: not when the user declined Slack's own question.
        shown: Messages that are clearly the answer to this.
        pushed: A view that came with the acknowledgement.
    """

    user: User
    channel: Channel | None
    world: World
    pulse: Pulse
    trigger: Trigger
    response_url: str = ""
    source: Message | None = None
    delivery: Delivery | None = None
    attempt: Attempt | None = None
    shown: list[Message] = field(default_factory=list)
    pushed: View | None = None
    uses: int = 0
    at: float = field(default_factory=time.monotonic)
    before: int = 0
    edits_before: int = 0

    @property
    def sent(self) -> bool:
        return self.delivery is not None

    @property
    def acked_after(self) -> float | None:
        """After how many seconds it was acknowledged; `None` while it is not."""
        return self.delivery.acked_after if self.delivery else None

    @property
    def failure(self) -> str:
        """What Slack tells the user when the app did not answer well; empty otherwise."""
        if self.attempt is None or not self.attempt.failure:
            return ""
        late = self.attempt.failure == "http_timeout"
        return "operation_timeout" if late else "dispatch_failed"

    @property
    def payload(self) -> Json:
        """What came with the acknowledgement."""
        return self.attempt.answer if self.attempt else {}

    @property
    def posts(self) -> list[Message]:
        """Messages that this user was shown because of it, in order."""
        told = [
            message
            for message in self.world.ephemerals[self.before :]
            if message.visible_to == self.user.id
            and message.channel is self.channel
            and not message.claimed
        ]
        return [m for m in dict.fromkeys([*self.shown, *told]) if not m.deleted]

    @property
    def ephemeral(self) -> bool:
        """Whether there is an answer, and nobody else sees any of it."""
        return bool(self.posts) and all(post.visible_to == self.user.id for post in self.posts)

    @property
    def view(self) -> View | None:
        """The form that was opened, or that came next."""
        return self.pushed or self.trigger.view

    @property
    def changed(self) -> bool:
        """Whether the message that was clicked is another now, or gone."""
        source = self.source
        return source is not None and (source.deleted or source.edits > self.edits_before)

    @property
    def errors(self) -> dict[str, str]:
        """What is wrong with the fields of a form, by block."""
        return dict(self.payload.get("errors") or {})

    @property
    def options(self) -> list[tuple[str, str]]:
        """The choices that were suggested: (text, value)."""
        groups = self.payload.get("option_groups") or []
        grouped = [option for group in groups for option in group["options"]]
        given = self.payload.get("options") or grouped
        return [(option["text"]["text"], option["value"]) for option in given]

    def text(self) -> str:
        """Return everything that the user reads as the answer."""
        return "\n".join(post.readable(self.user) for post in self.posts)

    async def done(self) -> "Answer":
        """Wait until there is something to see: a message, a change, a form, errors or choices."""
        await self.pulse.until(
            lambda: self.posts or self.changed or self.view or self.errors or self.options,
            f"an answer to {self.delivery.type if self.delivery else 'nothing'}",
        )
        return self


class Answers:
    """All answers, and the addresses where an app may answer later."""

    def __init__(self, world: World, chat: Chat, faults: Faults, pulse: Pulse) -> None:
        self.base = ""
        self._world = world
        self._chat = chat
        self._faults = faults
        self._pulse = pulse
        self._by_ticket: dict[str, Answer] = {}

    def expect(
        self, user: User, channel: Channel | None, trigger: Trigger, source: Message | None = None
    ) -> Answer:
        """Begin to wait for what the app answers."""
        ticket = self._world.new_id("r")
        answer = Answer(user, channel, self._world, self._pulse, trigger, source=source)
        answer.before = len(self._world.ephemerals)
        answer.edits_before = source.edits if source else 0
        if channel is not None:
            answer.response_url = f"{self.base}/respond/{ticket}"
            self._by_ticket[ticket] = answer
        return answer

    def take(self, answer: Answer) -> None:
        """Show what came with an acknowledgement."""
        content = answer.payload
        if answer.channel is not None and (content.get("text") or content.get("blocks")):
            self._show(answer, content)
            # The app may have used the response URL before we heard of its acknowledgement.
            answer.shown.insert(0, answer.shown.pop())

    async def respond(self, request: web.Request) -> web.Response:
        """Take an answer at a response URL."""
        body: Json = json.loads(await request.read())
        fault = self._faults.take("response_url", body)
        if fault is not None and fault.hold is not None:
            await fault.hold.wait()
        if fault is not None and fault.refuse:
            return cut_off(request)
        if fault is not None and fault.answers:
            return web.json_response({"ok": False, "error": fault.error}, status=fault.status)
        answer = self._by_ticket.get(request.match_info["ticket"])
        if answer is None:
            return web.json_response({"ok": False, "error": "no_service"}, status=404)
        answer.uses += 1
        if answer.uses > MAX_USES or time.monotonic() - answer.at > MAX_SECONDS:
            used = "used_url" if answer.uses > MAX_USES else "expired_url"
            return web.json_response({"ok": False, "error": used}, status=404)
        try:
            self._apply(answer, body)
        except SlackError as error:
            return web.json_response(error.answer, status=400)
        self._pulse.beat()
        if fault is not None and fault.cut:
            return cut_off(request)
        return web.Response(text="ok")

    def _apply(self, answer: Answer, body: Json) -> None:
        original = answer.source or (answer.shown[-1] if answer.shown else None)
        if body.get("delete_original") and original is not None:
            original.deleted = True
            return
        check_content(body)
        if body.get("replace_original") and original is not None:
            self._chat.write(original, body)
            original.edits += 1
            return
        self._show(answer, body)

    def _show(self, answer: Answer, body: Json) -> None:
        channel = answer.channel
        assert channel is not None
        if body.get("response_type") == "in_channel":
            bot = answer.user.team.bot
            thread = str(body.get("thread_ts") or "")
            message = self._world.add_message(channel, bot, thread_ts=thread)
            self._chat.write(message, body)
            self._chat.tell(message, None)
        else:
            message = self._chat.whisper(channel, answer.user, body)
        message.claimed = True
        answer.shown.append(message)
