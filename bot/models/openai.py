"""OpenAI and all servers with the Chat Completions API, such as Ollama and vLLM."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from bot.agent.messages import Usage
from bot.errors import ModelError
from bot.models.base import ModelRequest
from bot.models.capabilities import Knows
from bot.models.client import MALFORMED, Lazy, Sdk, SdkModel, SdkSettings, arguments_of, sdk_of
from bot.models.openai_codec import OPENAI, answer_from, body_for, usage_of
from bot.values import Json

SETTING = "models.openai"


#: Addresses of servers by the name of their preset; those on this computer have their usual port.
PRESETS: Mapping[str, str] = {
    "ollama": "http://localhost:11434/v1",
    "llama.cpp": "http://localhost:8080/v1",
    "lmstudio": "http://localhost:1234/v1",
    "vllm": "http://localhost:8000/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "groq": "https://api.groq.com/openai/v1",
    "mistral": "https://api.mistral.ai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "together": "https://api.together.xyz/v1",
    "xai": "https://api.x.ai/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
}
Preset = Literal[
    "", "ollama", "llama.cpp", "lmstudio", "vllm", "openrouter", "groq", "mistral", "deepseek",
    "together", "xai", "gemini",
]  # fmt: skip
#: What HTTP allows in a header.
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")


class OpenAISettings(SdkSettings):
    """A server with the Chat Completions API."""

    environment: ClassVar[Mapping[str, str]] = {
        "api_key": "OPENAI_API_KEY",
        "base_url": "OPENAI_BASE_URL",
    }

    preset: Preset = ""
    """A server whose address is known: ollama, llama.cpp, lmstudio, vllm, openrouter, groq,
    mistral, deepseek, together, xai or gemini. `base_url` replaces its address.
    """

    api_key: SecretStr | None = None
    """The key; write ${OPENAI_API_KEY}. A server of your own may need none."""

    base_url: str | None = None
    """The address of another server, such as http://localhost:11434/v1."""

    headers: dict[str, SecretStr] = Field({})
    """Further headers of each request, such as those that a gateway asks for."""

    main_model: str = ""
    """The main agent's model, by the server's name for it."""

    subagent_model: str = ""
    """The model of runs; empty for the main model."""

    temperature: float | None = Field(None, ge=0, le=2)
    """The freedom of its wording; empty leaves it to the server."""

    text_tool_calls: bool = False
    """Whether tool calls that a small model writes into its text are made."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        if isinstance(given, dict) and (address := PRESETS.get(str(given.get("preset") or ""))):
            return {**given, "base_url": given.get("base_url") or address}
        return given

    @field_validator("headers")
    @classmethod
    def _can_be_sent(cls, given: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in given.items():
            text = value.get_secret_value()
            if not _HEADER.fullmatch(name) or not text.isascii() or not text.isprintable():
                raise ValueError(
                    f"the header {name!r} cannot be sent: a name has letters, digits and hyphens, "
                    "a value printable ASCII"
                )
        return given

    @property
    def configured(self) -> bool:
        """True if a key or a server address is set."""
        return bool(self.base_url or self.key)

    @property
    def official(self) -> bool:
        """True if requests go to OpenAI itself, not to a compatible server."""
        return not self.base_url or "//api.openai.com" in self.base_url

    @property
    def endpoint(self) -> tuple[str, dict[str, str]]:
        """The address of the API, and the headers with the key."""
        base = (self.base_url or "https://api.openai.com/v1").rstrip("/")
        return base, {"Authorization": f"Bearer {self.key or 'none'}", **self.plain_headers}

    @property
    def plain_headers(self) -> dict[str, str]:
        """The further headers, without their mask."""
        return {name: value.get_secret_value() for name, value in self.headers.items()}


def openai_model(
    settings: OpenAISettings, knows: Knows = OPENAI, provider: str = "openai"
) -> SdkModel:
    """Return the Chat Completions API behind the model port.

    Args:
        settings: The section of the server.
        knows: Returns the capabilities of a model.
        provider: The name of the server, as in `provider/model`.
    """
    if provider == "openai":
        name, setting = ("OpenAI" if settings.official else "The model server"), SETTING
    else:
        name, setting = f"The model server {provider}", f"models.servers.{provider}"
    return SdkModel(
        name=name,
        sdk=Lazy(partial(_open_sdk, settings, name, setting)),
        body_for=partial(
            body_for,
            official=settings.official,
            temperature=settings.temperature,
            knows=knows,
        ),
        answer_from=partial(answer_from, text_calls=settings.text_tool_calls),
        new_stream=StreamedCompletion,
        timeout_seconds=settings.timeout_seconds,
    )


def _open_sdk(settings: OpenAISettings, name: str, setting: str) -> Sdk:
    """Import the SDK, which is slow, and open its client; the caller closes the client.

    Raises:
        ModelError: Neither a key nor a server address is set.
    """
    if not settings.configured:
        raise ModelError(
            f"There is no key for OpenAI. An admin must set `{setting}.api_key`, or "
            f"`{setting}.base_url` for a server of your own, in the configuration."
        )
    import openai  # noqa: PLC0415 - heavy

    client = openai.AsyncOpenAI(
        # The SDK requires a key even if the server does not.
        api_key=settings.key or "none",
        default_headers=settings.plain_headers,
        **arguments_of(openai, settings),
    )
    path = "/chat/completions"
    return sdk_of(client, openai, settings, path, provider=name, setting=setting, code="code")


@dataclass(slots=True)
class StreamedCompletion:
    """Assembles a streamed completion from its chunks.

    Attributes:
        complete: Whether the server has sent a finish reason.
        shown: The text so far.
    """

    complete: bool = False
    shown: str = ""
    _begun: bool = False
    _refusal: str = ""
    _reasoning: str = ""
    _calls: dict[int, Json] = field(default_factory=dict)
    _finish: str = ""
    _model: str = ""
    _usage: Json | None = None

    def usage(self, request: ModelRequest) -> Usage | None:
        """Return the usage of the completion so far; `None` before the completion began."""
        message = self.document["choices"][0]["message"]
        return usage_of(self._usage, request, message) if self._begun else None

    @property
    def document(self) -> Json:
        """The completion so far, in the format of a response without streaming."""
        message = {
            "content": self.shown,
            "refusal": self._refusal,
            "reasoning": self._reasoning,
            "tool_calls": list(self._calls.values()),
        }
        choice = {"message": message, "finish_reason": self._finish}
        return {"choices": [choice], "model": self._model, "usage": self._usage}

    def take(self, event: Json) -> None:
        """Add one chunk.

        Raises:
            ValueError: The chunk is malformed.
        """
        try:
            self._model = event.get("model") or self._model
            self._usage = event.get("usage") or self._usage
            for choice in event["choices"]:
                self._begun = True
                delta = choice["delta"]
                self.shown += delta.get("content") or ""
                self._refusal += delta.get("refusal") or ""
                thought = delta.get("reasoning_content") or delta.get("reasoning") or ""
                self._reasoning += thought if isinstance(thought, str) else ""
                for piece in delta.get("tool_calls") or ():
                    index = piece.get("index")
                    place = len(self._calls) if index is None else index
                    empty: Json = {
                        "id": piece.get("id"),
                        "function": {"name": "", "arguments": ""},
                    }
                    function = self._calls.setdefault(place, empty)["function"]
                    if (added := piece.get("function")) is not None:
                        function["name"] += added.get("name") or ""
                        function["arguments"] += added.get("arguments") or ""
                if choice.get("finish_reason") is not None:
                    self._finish, self.complete = choice["finish_reason"], True
        except MALFORMED as error:
            raise ValueError(f"a chunk that does not fit: {error!r}") from error
