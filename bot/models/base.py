"""The port to language models; every provider is an adapter that passes the contract tests."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from bot.agent.messages import Answer, Message, Usage, estimate_tokens
from bot.spending.pools import Payer
from bot.values import Json

#: Margin, in seconds, by which waiting for a busy provider ends before the deadline that cancels
#: the request: an unsent request is not charged, and the caller gets the reason.
WAIT_MARGIN_SECONDS = 0.1

#: Most lists of tools that a process keeps; there are about as many as agents.
_MOST_OFFERS = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """A tool as a model sees it.

    Attributes:
        schema: The JSON Schema of the arguments, an object.
    """

    name: str
    description: str
    schema: Json


class OfferedTools(tuple[ToolDescription, ...]):
    """The tools that requests carry, with what was made of them, such as their JSON."""

    @cached_property
    def size(self) -> int:
        """An upper estimate of their tokens."""
        spelled = "".join(f"{tool.description}{tool.schema}" for tool in self)
        return estimate_tokens(spelled) if spelled else 0

    def made(self, make: Callable[["OfferedTools"], T]) -> T:
        """Return the value that `make` computes from these tools, computed once."""
        known: dict[Any, Any] = self.__dict__
        name = f"{make.__module__}.{make.__qualname__}"
        if name not in known:
            known[name] = make(self)
        found: T = known[name]
        return found


_offers: dict[tuple[object, ...], OfferedTools] = {}


def offered(tools: Iterable[ToolDescription]) -> OfferedTools:
    """Return tools as one object for all agents that have the same ones."""
    if isinstance(tools, OfferedTools):
        return tools
    every = OfferedTools(tools)
    # The schemas are the same objects for all agents, and live while they are kept here.
    key = tuple(part for each in every for part in (each.name, each.description, id(each.schema)))
    known = _offers.get(key)
    if known is not None:
        return known
    if len(_offers) >= _MOST_OFFERS:
        del _offers[next(iter(_offers))]
    _offers[key] = every
    return every


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a model.

    Attributes:
        model: The provider's name of the model.
        prompt: The system prompt; constant within a conversation, so that it can be cached.
        tools: All tools of the agent, also when tool calls are not allowed: providers refuse a
            history with tool calls without them.
        found: Tools that results of the messages have found; a model that loads tools on demand
            gets them declared.
        tools_allowed: `False` for the last step at a limit: the model must answer with text.
        max_tokens: The output token limit.
        effort: The reasoning effort: `low`, `medium`, `high`, `xhigh` or `max`, for models that
            accept one; `None` for the model's default.
        history: Number of messages, from the first, that later turns of the conversation repeat,
            so that caching them pays off.
        user_hash: An opaque hash of the user, for the provider's abuse detection; never a name.
        seconds: Longest wait for a busy provider; `None` for the default.
        background: Whether a run asks, not a user's turn: users' turns have priority.
        on_wait: Called before each wait for a busy provider.
        on_activity: Called when an attempt begins and for each part of an answer. A request with it
            is streamed, so that a silent provider can be told from one that writes.
        on_lost: Called for each request that got no answer but may still be charged.
        payer: The user, the place and the work whose spending limits apply; `None` for none.
        expected_input: An upper estimate of the input tokens, from what the previous request was
            billed; 0 for the estimate by length.
        repeated: Whether an earlier attempt of this request failed.
    """

    model: str
    prompt: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDescription, ...] = ()
    found: tuple[ToolDescription, ...] = ()
    tools_allowed: bool = True
    max_tokens: int = 4096
    effort: str | None = None
    history: int = 0
    user_hash: str = ""
    seconds: float | None = None
    background: bool = False
    on_wait: "OnWait | None" = None
    on_activity: Callable[[], None] | None = None
    on_lost: "OnLost | None" = None
    payer: Payer | None = None
    expected_input: int = 0
    repeated: bool = False


#: Called repeatedly with the whole text of the answer so far; each text replaces the previous one.
#: A retry after a broken stream starts over with a shorter text.
OnText = Callable[[str], None]


#: Called with the reason, a sentence, and the seconds of a wait that begins now; infinite if the
#: length is unknown.
OnWait = Callable[[str, float], None]


#: Called with the request as sent and the usage that may be charged: the counts that the provider
#: reported, and an estimate of the rest.
OnLost = Callable[[ModelRequest, Usage], None]


class ProviderSettings(Protocol):
    """The section of a provider under `models:`."""

    @property
    def configured(self) -> bool:
        """True if the section has all that requests need."""

    @property
    def needed(self) -> str:
        """The key without which `configured` is false."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that fill keys of the section when nothing else sets them, by key."""

    @property
    def main_model(self) -> str:
        """The main agent's model."""

    @property
    def subagent_model(self) -> str:
        """The model of runs; empty for the main model."""

    @property
    def endpoint(self) -> tuple[str, dict[str, str]]:
        """The address of the API, empty without one, and the headers with the key."""


class Model(Protocol):
    """A provider of language models."""

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        """Return the model's answer; stream its text to `on_text` if given.

        Cancelling the waiting task closes the connection, so the provider stops generating.
        A request that may be charged without an answer is reported to `request.on_lost`.

        Raises:
            ModelUnavailableError: The provider is busy, down or unreachable; a retry may help.
            ModelRefusedError: The account or the model is refused; another model may answer.
            ContextTooLongError: The messages do not fit the model's context.
            ModelError: Any other error; a retry will not help.
        """
