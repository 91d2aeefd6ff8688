"""Selects and opens models: the main agent's, the runs', and the others that are allowed."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator

from bot.agent.messages import Usage
from bot.catalog.agents import AgentDefinition
from bot.errors import BadRequestError, NotAllowedError
from bot.models.anthropic import anthropic_model
from bot.models.anthropic_client import AnthropicSettings, Claude
from bot.models.base import Model, ProviderSettings
from bot.models.client import SdkModel
from bot.models.fallback import FallbackModel, Fallbacks
from bot.models.metered import CountingModel, MeteredModel
from bot.models.metering import Meter
from bot.models.offline import OfflineModel, OfflineSettings
from bot.models.openai import OpenAISettings, openai_model
from bot.models.prices import PINNED, VERSION, Prices, PriceSettings
from bot.models.retrying import Patience, RetryingModel, RetrySettings
from bot.rights.effective import Rights, model_names
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


class Models:
    """The providers that are set up."""

    def __init__(
        self, settings: ModelSettings, now: Callable[[], float], meter: Meter | None = None
    ) -> None:
        self.settings = settings
        self.prices = settings.price_list
        self.meter = meter
        self._fallbacks = Fallbacks(settings.fallback_after_seconds, now)
        self._sdks: dict[Provider, SdkModel] = {}
        self._patience: dict[Provider, Patience] = {}
        self._providers: dict[Provider, Model] = {}
        for name, adapter in PROVIDERS.items():
            if not settings.section(name).configured:
                continue
            made: CountingModel = adapter(settings.section(name))
            # Each attempt of a retry is metered by itself, since each may be charged.
            model: Model = MeteredModel(made, name, self.prices, meter)
            if isinstance(made, SdkModel):
                self._sdks[name] = made
                self._patience[name] = Patience(settings.retry, made.name, now=now)
                model = RetryingModel(model, self._patience[name])
            self._providers[name] = model

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: ModelSettings,
        *,
        meter: Meter | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> AsyncIterator["Models"]:
        """Open every provider that is set up; the SDKs are imported on first use.

        Args:
            settings: The configuration of the models.
            meter: Reserves an amount for each request; `None` where no limit can apply.
            now: A monotonic clock, in seconds.
        """
        async with AsyncExitStack() as stack:
            models = cls(settings, now, meter)
            for model in models._sdks.values():
                stack.push_async_callback(model.aclose)
            yield models

    async def warm(self) -> None:
        """Import the default provider's SDK and the prices in a thread, before they are needed."""
        if model := self._sdks.get(self.settings.chosen):
            await model.sdk.get()
            await asyncio.to_thread(self.prices.load)

    def of(self, choice: ModelChoice) -> Model:
        """Return the `Model` for a choice: its provider, wrapped with the configured fallbacks."""
        provider = self._providers[choice.provider]
        others = [each for each in self.settings.fallback_choices if each != choice]
        if not others:
            return provider
        candidates = [
            self._fallbacks.add(str(each), each.model, self._providers[each.provider])
            for each in (choice, *others)
        ]
        return FallbackModel(candidates[0], candidates[1:], self._fallbacks)

    def for_main(self, chosen: str) -> tuple[Model, str]:
        """Return the `Model` of the main agent and the model's name.

        Args:
            chosen: The model chosen in the conversation; empty for the default.
        """
        settings = self.settings
        choice = settings.choose(None, self.kept(chosen), settings.main)
        return self.of(choice), choice.model

    def admitted(self, chosen: str, rights: Rights) -> str:
        """Return the model chosen in a conversation, or the first that the rights admit instead.

        Raises:
            NotAllowedError: The rights admit none.
        """
        if not rights.levels:
            return chosen
        settings, refused = self.settings, ""
        wanted = settings.choose(None, self.kept(chosen), settings.main)
        for choice in dict.fromkeys((wanted, *settings.choices)):
            why = rights.refusal("models", *model_names(choice.provider, choice.model))
            if not why:
                return str(choice)
            refused = refused or why
        raise NotAllowedError(f"{refused[:1].upper()}{refused[1:]}.")

    def choose_for_run(
        self, provider: str | None, model: str | None, definition: AgentDefinition
    ) -> tuple[str, str]:
        """Return provider and model of a run: as requested, from its agent's file, or the default.

        Raises:
            BadRequestError: No allowed model matches; the text lists the allowed models.
        """
        named = definition.model
        default, as_named = self.settings.of_agent(definition.provider, named)
        if not as_named:
            log.warning("An agent names the model %s; %s answers instead", named, default)
        choice = self.settings.choose(provider, model, default)
        return choice.provider, choice.model

    def of_run(self, provider: str, model: str) -> Model:
        """Return the `Model` for the provider and the model name of a run's row."""
        found = next((name for name in PROVIDERS if name == provider), self.settings.chosen)
        return self.of(ModelChoice(found, model))

    @property
    def claude(self) -> Claude:
        """The connection to Claude, for tools that Anthropic runs."""
        return Claude(
            settings=self.settings.anthropic,
            patience=self.patience("anthropic"),
            answers=self.settings.chosen == "anthropic",
            prices=self.prices,
            meter=self.meter,
        )

    def patience(self, provider: Provider) -> Patience:
        """Return a provider's retry handler, for requests other than those of agents."""
        if provider not in self._patience:
            self._patience[provider] = Patience(self.settings.retry, provider.title())
        return self._patience[provider]

    def named(self, name: str) -> str:
        """Return the allowed model with this name, as `provider/model`; the main agent's if empty.

        Raises:
            BadRequestError: No allowed model matches; the text lists the allowed models.
        """
        return str(self.settings.choose(None, name or None, self.settings.main))

    def kept(self, name: str) -> str:
        """Return the stored choice, or the main agent's model if that choice is not allowed now."""
        try:
            return self.named(name)
        except BadRequestError:
            return str(self.settings.main)

    def names(self) -> list[str]:
        """Return the names of all allowed models, the main agent's first."""
        return [str(choice) for choice in self.settings.choices]
