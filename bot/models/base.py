"""The port to language models: every provider is an adapter that passes one contract suite."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bot.agent.messages import Answer, Message
from bot.values import Json


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


#: Called with the whole text of the answer so far, again and again: the newest call wins. A retry
#: after a broken stream starts over with a shorter text.
OnText = Callable[[str], None]


class Model(Protocol):
    """A provider of language models."""

    provider: str

    async def ask(self, question: Question, on_text: OnText | None = None) -> Answer:
        """Return the model's answer; stream it to `on_text` when that is given.

        Cancelling the task that waits here closes the connection, so the provider stops working.

        Raises:
            ModelUnavailableError: Busy, down or out of reach; asking again may help.
            ContextTooLongError: The messages do not fit the model.
            ModelError: Anything else; asking again will not help.
        """
        ...
