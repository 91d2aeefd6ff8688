"""Selects and opens models: the main agent's, the runs', and the others that are allowed."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator

from bot.agent.messages import Usage
from bot.errors import BadRequestError
from bot.models.anthropic import anthropic_model
from bot.models.anthropic_client import AnthropicSettings
from bot.models.base import ProviderSettings
from bot.models.client import SdkModel
from bot.models.offline import OfflineModel, OfflineSettings
from bot.models.openai import OpenAISettings, openai_model
from bot.models.prices import PINNED, VERSION, Prices, PriceSettings
from bot.models.retrying import RetrySettings
from bot.values import Settings

log = logging.getLogger(__name__)

Provider = Literal["anthropic", "openai", "offline"]
#: The adapter of each provider, made from its section of the settings, in the order in which
#: `auto` looks for one that is set up.
PROVIDERS: Mapping[Provider, Callable[[Any], SdkModel | OfflineModel]] = {
    "anthropic": anthropic_model,
    "openai": openai_model,
    "offline": OfflineModel,
}
#: Claude families that agent files may name; a gateway's model names contain them too.
FAMILIES = frozenset({"haiku", "opus", "sonnet"})


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model of a provider; written `provider/model`."""

    provider: Provider
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

    provider: Literal["auto", Provider] = "auto"
    """The provider that answers: anthropic, openai (or a server that speaks like it), offline (a
    demo without a model), or auto: the first of these that is set up.
    """

    anthropic: AnthropicSettings = AnthropicSettings()
    """Claude."""

    openai: OpenAISettings = OpenAISettings()
    """OpenAI, Ollama, vLLM and everything that speaks like them."""

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

    @model_validator(mode="after")
    def _is_complete(self) -> "ModelSettings":
        for choice in (*self.choices, *self.fallback_choices):
            if not self.section(choice.provider).configured:
                raise ValueError(
                    f"{choice} needs `models.{choice.provider}.api_key`, which is not set"
                )
            if not choice.model:
                raise ValueError(f"`models.{choice.provider}.main_model` must name a model")
        return self

    @property
    def chosen(self) -> Provider:
        """The default provider: the configured one, or for `auto` the first that is set up."""
        if self.provider != "auto":
            return self.provider
        return next(name for name in PROVIDERS if self.section(name).configured)

    @property
    def main(self) -> ModelChoice:
        """The model of the main agent."""
        return ModelChoice(self.chosen, self.section(self.chosen).main_model)

    @property
    def subagent(self) -> ModelChoice:
        """The default model of runs."""
        section = self.section(self.chosen)
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
    def price_list(self) -> Prices:
        """The prices of all models."""
        own = {self._parsed(name): price for name, price in self.prices.items()}
        server = "" if self.openai.official else self.openai.base_url or ""
        return Prices(
            {(choice.provider, choice.model): price for choice, price in own.items()},
            {"openai": server} if server else {},
        )

    def section(self, provider: Provider) -> ProviderSettings:
        """Return the settings of a provider."""
        section: ProviderSettings = getattr(self, provider)
        return section

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
        if self.chosen == "offline":
            lines.append(
                "The offline demo answers, by a few rules. For a real model set "
                "`models.anthropic.api_key` (or ANTHROPIC_API_KEY), or `models.openai`."
            )
        if self.provider != "auto":
            lines.append(f"why: `models.provider` says {self.provider}")
        elif self.chosen != "offline":
            lines.append("why: it is the first that is set up")
        else:
            lines.append("why: no ANTHROPIC_API_KEY, and `models.openai` is not set up")
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
        asked = dict.fromkeys((*self.choices, *self.fallback_choices))
        return [each for each in asked if prices.of(each.provider, each.model, token) is None]

    def _parsed(self, text: str) -> ModelChoice:
        # Some servers' model names contain a slash: only a known provider's name is a prefix.
        head, _, rest = text.strip().partition("/")
        known = next((name for name in PROVIDERS if rest and head == name), None)
        return ModelChoice(known, rest) if known else ModelChoice(self.chosen, text.strip())
