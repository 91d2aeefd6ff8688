"""Selects and opens models: the main agent's, the runs', and the others that are allowed."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import Field, field_validator, model_validator

from bot.agent.messages import Usage
from bot.errors import BadRequestError
from bot.models.anthropic import AnthropicSettings, anthropic_model
from bot.models.anthropic_clouds import BedrockSettings, VertexSettings, bedrock_model, vertex_model
from bot.models.base import ProviderSettings
from bot.models.capabilities import CapabilitySettings, Knows, ModelCapabilities
from bot.models.client import SdkModel
from bot.models.offline import OfflineModel, OfflineSettings
from bot.models.openai import OpenAISettings, openai_model
from bot.models.prices import PINNED, VERSION, Prices, PriceSettings
from bot.models.retrying import RetrySettings
from bot.values import Settings

log = logging.getLogger(__name__)

#: The adapter of each provider with a section of its own, in the order in which `auto` looks for
#: one that is set up; the named servers come before the demo.
PROVIDERS: Mapping[str, Callable[[Any, Knows], SdkModel]] = {
    "anthropic": anthropic_model,
    "openai": openai_model,
    "bedrock": bedrock_model,
    "vertex": vertex_model,
}
OFFLINE = "offline"
#: A name of a server.
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,29}")
#: Claude families that agent files may name; a gateway's model names contain them too.
FAMILIES = frozenset({"haiku", "opus", "sonnet"})


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model of a provider; written `provider/model`."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"

    def is_called(self, name: str | None) -> bool:
        """Return True for no name, or for the choice in full, with provider or by family."""
        if not name or name in {self.model, str(self), *self.model.split("-")[1:2]}:
            return True
        family = name.lower()
        return family in FAMILIES and family in self.model.lower()


class ModelSettings(Settings):
    """Everything under `models:`."""

    provider: str = "auto"
    """The provider that answers: anthropic, openai (or a server that speaks like it), bedrock,
    vertex, a name of `servers`, offline (a demo without a model), or auto: the first of these that
    is set up with a main model.
    """

    anthropic: AnthropicSettings = AnthropicSettings()
    """Claude."""

    openai: OpenAISettings = OpenAISettings()
    """OpenAI, Ollama, vLLM and everything that speaks like them."""

    servers: dict[str, OpenAISettings] = Field({})
    """Further servers that speak like OpenAI, by names of your own, such as `ollama: {preset:
    ollama, main_model: qwen3}`. Their models are named NAME/MODEL: docs/models.md.
    """

    bedrock: BedrockSettings = BedrockSettings()
    """Claude on Amazon Bedrock; needs the extra `bedrock`."""

    vertex: VertexSettings = VertexSettings()
    """Claude on Google Vertex AI; needs the extra `vertex`."""

    offline: OfflineSettings = OfflineSettings()
    """The demo without a model."""

    allowed: tuple[str, ...] = ()
    """Further models that a run may ask for, such as openai/gpt-6-luna or claude-opus-5-5; the main
    model and the runs' model always may be.
    """

    fallbacks: tuple[str, ...] = ()
    """Models that answer, in this order, while the one that should is busy, down or refused, such
    as openai/gpt-6-luna or claude-haiku-5-5.
    """

    fallback_after_seconds: float = Field(20, ge=0, le=600)
    """The longest wait for a busy model while another one may answer."""

    retry: RetrySettings = RetrySettings()
    """Asking a busy provider again."""

    prices: dict[str, PriceSettings] = Field({})
    """Prices by model, such as openai/meta/llama, which replace those of the list that comes with
    the bot. Calls of a model without a price are counted in tokens only.
    """

    capabilities: dict[str, CapabilitySettings] = Field({})
    """Capabilities by model or provider/model, such as `ollama/qwen3: {tools: false}`; it
    goes before the catalogue that comes with the bot.
    """

    @field_validator("servers")
    @classmethod
    def _are_named(cls, given: dict[str, OpenAISettings]) -> dict[str, OpenAISettings]:
        for name, server in given.items():
            if not _NAME.fullmatch(name) or name in {*PROVIDERS, OFFLINE, "auto"}:
                raise ValueError(
                    f"a server cannot be called {name!r}: use small letters, digits and hyphens, "
                    f"and none of {', '.join(PROVIDERS)}, offline and auto"
                )
            if not server.base_url:
                raise ValueError(f"the server {name!r} needs `base_url` or `preset`")
        return given

    @model_validator(mode="after")
    def _is_complete(self) -> "ModelSettings":
        if self.provider not in {"auto", *self.providers}:
            raise ValueError(
                f"`models.provider` is one of auto, {', '.join(self.providers)}, not "
                f"{self.provider!r}"
            )
        for choice in (*self.choices, *self.fallback_choices):
            section, setting = self.providers[choice.provider], self.setting(choice.provider)
            if not section.configured:
                raise ValueError(f"{choice} needs `{setting}.{section.needed}`, which is not set")
            if not choice.model:
                raise ValueError(f"`{setting}.main_model` must name a model")
        return self

    @property
    def providers(self) -> dict[str, ProviderSettings]:
        """The sections of all providers by name, in the order in which `auto` looks at them."""
        own = {name: getattr(self, name) for name in PROVIDERS}
        return {**own, **self.servers, OFFLINE: self.offline}

    def setting(self, provider: str) -> str:
        """Return the config group of a provider."""
        return f"models.servers.{provider}" if provider in self.servers else f"models.{provider}"

    @property
    def chosen(self) -> str:
        """The default provider: the configured one, or for `auto` the first that is set up.

        One without a main model, which may be there for the models of `fallbacks`, comes after the
        others, and the demo last.
        """
        if self.provider != "auto":
            return self.provider
        providers = self.providers
        set_up = [name for name, section in providers.items() if section.configured]
        named = (name for name in set_up if name != OFFLINE and providers[name].main_model)
        return next(named, set_up[0])

    @property
    def main(self) -> ModelChoice:
        """The model of the main agent."""
        return ModelChoice(self.chosen, self.providers[self.chosen].main_model)

    @property
    def subagent(self) -> ModelChoice:
        """The default model of runs."""
        section = self.providers[self.chosen]
        return ModelChoice(self.chosen, section.subagent_model or section.main_model)

    @property
    def choices(self) -> tuple[ModelChoice, ...]:
        """All models that a user or an agent may choose."""
        allowed = (self._parsed(text) for text in self.allowed)
        return tuple(dict.fromkeys((self.main, self.subagent, *allowed)))

    @property
    def fallback_choices(self) -> tuple[ModelChoice, ...]:
        """The fallback models, in order."""
        return tuple(dict.fromkeys(self._parsed(text) for text in self.fallbacks))

    @property
    def asked(self) -> list[ModelChoice]:
        """All models that requests may go to."""
        return [*dict.fromkeys((*self.choices, *self.fallback_choices))]

    @property
    def price_list(self) -> Prices:
        """The prices of all models."""
        own = {self._parsed(name): price for name, price in self.prices.items()}
        addresses = {name: server.base_url or "" for name, server in self.servers.items()}
        if not self.openai.official:
            addresses["openai"] = self.openai.base_url or ""
        return Prices(
            {(choice.provider, choice.model): price for choice, price in own.items()}, addresses
        )

    @property
    def abilities(self) -> ModelCapabilities:
        """The capabilities of all models."""
        vendors = {name: server.preset or name for name, server in self.servers.items()}
        return ModelCapabilities(self.capabilities, vendors)

    def choose(self, provider: str | None, model: str | None, default: ModelChoice) -> ModelChoice:
        """Return the allowed model that matches the provider and the model's name or family.

        Raises:
            BadRequestError: No allowed model matches; the text lists the allowed models.
        """
        if not provider and not model:
            return default
        fitting = [
            choice
            for choice in dict.fromkeys((default, *self.choices))
            if (not provider or choice.provider == provider) and choice.is_called(model)
        ]
        if not fitting:
            asked = "/".join(filter(None, (provider, model)))
            known = ", ".join(str(choice) for choice in self.choices)
            raise BadRequestError(
                f"The model {asked} may not be asked for here. Ask for one of these: {known}; "
                f"or for none, and {default} answers."
            )
        return fitting[0]

    def of_agent(self, provider: str | None, model: str | None) -> tuple[ModelChoice, bool]:
        """Return the model for an agent's file, and True if the file's own model was allowed.

        Agent files are shared between installations. If the file's model is not allowed, the
        default model of runs is used, or the first allowed model of the provider that it names.

        Raises:
            BadRequestError: No model of this provider is allowed.
        """
        try:
            return self.choose(provider, model, self.subagent), True
        except BadRequestError:
            return self.choose(provider, None, self.subagent), False

    def describe(self) -> list[str]:
        """Return the lines about the models that `check` prints."""
        lines = [f"main agent: {self.main}", f"runs: {self.subagent}"]
        others = [str(choice) for choice in self.choices[len({self.main, self.subagent}) :]]
        if others:
            lines.append(f"runs may also ask for: {', '.join(others)}")
        if self.fallbacks:
            instead = ", then ".join(str(choice) for choice in self.fallback_choices)
            lines.append(
                f"while one does not answer for {self.fallback_after_seconds:g} s: {instead}"
            )
        if self.chosen == OFFLINE:
            lines.append(
                "The offline demo answers, by a few rules. For a real model set "
                "`models.anthropic.api_key` (or ANTHROPIC_API_KEY), or `models.openai`."
            )
        if self.provider != "auto":
            lines.append(f"why: `models.provider` says {self.provider}")
        elif self.chosen != OFFLINE:
            lines.append("why: it is the first that is set up with a main model")
        else:
            lines.append("why: no ANTHROPIC_API_KEY, and no other provider is set up")
        abilities = {each: self.abilities.of(each.provider, each.model) for each in self.asked}
        if plain := [str(each) for each, can in abilities.items() if not can.tools]:
            lines.append(f"only talk, since they call no tools: {', '.join(plain)}")
        unknown = [
            str(each)
            for each, can in abilities.items()
            if not can.known
            and each.provider != OFFLINE
            and {str(each), each.model}.isdisjoint(self.capabilities)
        ]
        if unknown:
            lines.append(
                f"not in the catalogue, and taken to call tools: {', '.join(unknown)} "
                "(`models.capabilities` says what they can do)"
            )
        lines.append(f"prices: genai-prices {VERSION}, pinned on {PINNED}")
        if unpriced := self.unpriced():
            lines.append(
                f"no price, so that only tokens are counted: {', '.join(map(str, unpriced))} "
                "(`models.prices` sets one)"
            )
        return lines

    def unpriced(self) -> list[ModelChoice]:
        """Return the models that may be asked and have no price."""
        prices, token = self.price_list, Usage(input=1, output=1)
        return [each for each in self.asked if prices.of(each.provider, each.model, token) is None]

    def _parsed(self, text: str) -> ModelChoice:
        # Some servers' model names contain a slash: only a known provider's name is a prefix.
        head, _, rest = text.strip().partition("/")
        if rest and head in self.providers:
            return ModelChoice(head, rest)
        return ModelChoice(self.chosen, text.strip())


def open_provider(settings: ModelSettings, name: str) -> SdkModel | OfflineModel:
    """Return a provider behind the model port."""
    if name == OFFLINE:
        return OfflineModel(settings.offline)
    knows = partial(settings.abilities.of, name)
    if name in settings.servers:
        return openai_model(settings.servers[name], knows, name)
    return PROVIDERS[name](settings.providers[name], knows)
