"""The port to language models: every provider is an adapter that passes one contract suite."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bot.agent.messages import Answer, Message, Usage
from bot.values import Json

#: Whoever cuts a question off at the end of its time lets the waiting for a busy provider end so
#: much earlier: a request that was never sent is not charged, and the reason is told.
ASIDE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """A tool as a model sees it.

    Attributes:
        schema: The JSON Schema of its arguments, an object.
    """

    name: str
    description: str
    schema: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request to a model.

    Attributes:
        model: The provider's name of the model.
        prompt: The system prompt; the same within a conversation, so that it can be cached.
        tools: All tools of the agent, also when they may not be used, since a history with calls is
            refused without them.
        tools_allowed: `False` for the last step at a limit: the model must answer in words.
        max_tokens: The most output tokens.
        effort: How hard to think: `low`, `medium`, `high`, `xhigh` or `max`, where the model can be
            told; `None` for its usual.
        history: How many of the messages, from the first, later turns of the conversation begin
            with as well, so that they are worth caching.
        person: An opaque hash of the person, for the provider's abuse detection; never a name.
        seconds: How long the work may wait for a busy provider; `None` if it names no limit.
        background: A run asks, not a user's turn: users' turns go first.
        on_wait: Called before each wait for a busy provider.
        on_lost: Called for each request that came to no answer and may be charged all the same.
    """

    model: str
    prompt: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDescription, ...] = ()
    tools_allowed: bool = True
    max_tokens: int = 4096
    effort: str | None = None
    history: int = 0
    person: str = ""
    seconds: float | None = None
    background: bool = False
    on_wait: "OnWait | None" = None
    on_lost: "OnLost | None" = None


#: Called with the whole text of the answer so far, again and again: the newest call wins. A retry
#: after a broken stream starts over with a shorter text.
OnText = Callable[[str], None]


#: Called with the reason, a sentence, and the seconds of a wait that begins now; infinite where
#: nobody knows how long it takes.
OnWait = Callable[[str, float], None]


#: Called with a request as it was sent and what it may have cost: what the provider reported, and
#: an estimate of the rest.
OnLost = Callable[[Question, Usage], None]


class Model(Protocol):
    """A provider of language models."""

    provider: str

    async def ask(self, question: Question, on_text: OnText | None = None) -> Answer:
        """Return the model's answer; stream it to `on_text` when that is given.

        Cancelling the task that waits here closes the connection, so the provider stops working.
        A request that may be charged although no answer came is reported to `question.on_lost`.

        Raises:
            ModelUnavailableError: Busy, down or out of reach; asking again may help.
            ModelRefusedError: The account or the model is refused; another model may answer.
            ContextTooLongError: The messages do not fit the model.
            ModelError: Anything else; asking again will not help.
        """
        ...
