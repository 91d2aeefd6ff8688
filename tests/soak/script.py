"""The model of the soak: it answers each message by the token in it, and can be out of service."""

import re

from bot.values import Json
from tests.fakes.anthropic_server import Call, Reply
from tests.stories.stage import is_run, said

TOKEN = re.compile(r"\b(talk|spawn|work) (m\d{5})\b")
#: Different calls, so that a run is not stopped for repeating itself.
ZONES = ("UTC", "Asia/Tokyo", "Europe/Paris")


class Script:
    """Answers requests; while `down` is set, every request is refused as overloaded.

    Attributes:
        down: The provider is out of service.
        refused: Requests that were refused meanwhile.
        unknown: Requests without a token.
    """

    def __init__(self) -> None:
        self.down = False
        self.refused = 0
        self.unknown = 0

    def __call__(self, body: Json) -> Reply:
        """Answer one request."""
        if self.down:
            self.refused += 1
            return Reply(status=529, kind="overloaded_error", text="Overloaded")
        kind, token, results = _newest(body)
        if not token:
            self.unknown += 1
            return Reply(text="I see no token here.")
        if is_run(body):
            offered = {tool["name"] for tool in body.get("tools", ())}
            if results < len(ZONES) and "current_time" in offered:
                call = Call("current_time", {"zone": ZONES[results]})
                return Reply(text="I look.", calls=(call,), latency_seconds=0.3)
            return Reply(text=f"Result {token}", latency_seconds=0.3)
        if kind == "spawn" and not results:
            work = {"task": f"work {token}", "label": token}
            return Reply(calls=(Call("sessions_spawn", work),), latency_seconds=0.2)
        text = f"Answer {token}"
        if kind == "spawn":
            # What came of it: a refusal in an outage is told to the user, as a model does.
            text = f"{text}. {said(body['messages'][-1])[:300]}"
        return Reply(text=text, latency_seconds=0.5, gap_seconds=0.02)


def _newest(body: Json) -> tuple[str, str, int]:
    """Return the kind and the token of the newest message, and the tool results after it."""
    results = 0
    for message in reversed(body["messages"]):
        if message["role"] != "user":
            continue
        blocks = message["content"] if isinstance(message["content"], list) else []
        results += sum(block.get("type") == "tool_result" for block in blocks)
        if found := TOKEN.findall(said(message)):
            return *found[-1], results
    return "", "", results
