"""Opens the models of the configuration in force: the main agent's, the runs', and the others."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from bot.agent.messages import Answer, Usage
from bot.catalog.agents import AgentDefinition
from bot.errors import BadRequestError, ModelRefusedError, ModelUnavailableError, NotAllowedError
from bot.models.anthropic import Claude
from bot.models.attempts import CountingModel, MeteredModel, Observe, ObservedModel
from bot.models.base import Model, ModelRequest, OnText
from bot.models.capabilities import FittedModel
from bot.models.catalog import ModelChoice, ModelSettings, open_provider
from bot.models.client import SdkModel
from bot.models.fallback import FallbackModel, Fallbacks
from bot.models.metering import Meter
from bot.models.prices import Prices
from bot.models.retrying import Patience, RetryingModel
from bot.rights.effective import Rights, model_names
from bot.values import Live

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ProviderHealth:
    """The last outcomes of requests to one provider, in this process.

    Attributes:
        on_refused: Called with the provider and the reason of each refusal of the account.
        now: A clock, in seconds.
    """

    name: str
    on_refused: Callable[[str, str], None] = lambda *_: None
    now: Callable[[], float] = time.monotonic
    answered_at: float | None = None
    trouble: str = ""
    trouble_at: float = field(default=0.0)

    def answered(self) -> None:
        """Record an answer."""
        self.answered_at, self.trouble = self.now(), ""

    def failed(self, reason: str) -> None:
        """Record a request without an answer."""
        self.trouble, self.trouble_at = reason, self.now()

    def __str__(self) -> str:
        if self.trouble:
            return f"{self.name}: {self.trouble} ({_ago(self.now() - self.trouble_at)})"
        if self.answered_at is None:
            return f"{self.name}: not asked since the start of this process"
        return f"{self.name}: answered {_ago(self.now() - self.answered_at)}"


@dataclass(frozen=True, slots=True)
class WatchedModel:
    """Wraps a model and records its outcomes."""

    model: Model
    health: ProviderHealth

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        """Return the model's answer; see `bot.models.base.Model`."""
        try:
            answer = await self.model.ask(request, on_text)
        except ModelRefusedError as error:
            self.health.failed(str(error))
            self.health.on_refused(self.health.name, str(error))
            raise
        except ModelUnavailableError as error:
            self.health.failed(str(error))
            raise
        self.health.answered()
        return answer


def _ago(seconds: float) -> str:
    return f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"


class _Providers:
    """The providers that one configuration sets up.

    Args:
        settings: The configuration of the models.
        meter: Reserves an amount for each request; `None` where no limit can apply.
        now: A monotonic clock, in seconds.
        refused: Called with the provider and the reason when it refuses the account.
        observe: Receives the event of each attempt.
    """

    def __init__(
        self,
        settings: ModelSettings,
        meter: Meter | None,
        now: Callable[[], float],
        refused: Callable[[str, str], None],
        observe: Observe,
    ) -> None:
        self.settings = settings
        self.prices = settings.price_list
        self.fallbacks = Fallbacks(settings.fallback_after_seconds, now)
        self.sdks: dict[str, SdkModel] = {}
        self.patience: dict[str, Patience] = {}
        self.models: dict[str, Model] = {}
        self.health: dict[str, ProviderHealth] = {}
        for name, section in settings.providers.items():
            if not section.configured:
                continue
            made: CountingModel = open_provider(settings, name)
            # Each attempt of a retry is metered by itself, since each may be charged.
            metered = MeteredModel(made, name, self.prices, meter)
            model: Model = ObservedModel(metered, name, observe)
            if isinstance(made, SdkModel):
                self.sdks[name] = made
                self.patience[name] = Patience(settings.retry, made.name, now=now)
                model = RetryingModel(model, self.patience[name])
            self.health[name] = ProviderHealth(name, refused, now)
            watched = WatchedModel(model, self.health[name])
            self.models[name] = FittedModel(watched, partial(settings.abilities.of, name))


class Models:
    """The providers that are set up now; a request continues with those that it began with.

    Args:
        settings: Returns the configuration of the models.
        now: A monotonic clock, in seconds.
        meter: Reserves an amount for each request; `None` where no limit can apply.
        observe: Receives the event of each attempt.

    Attributes:
        on_refused: Called with the provider and the reason when it refuses the account.
    """

    def __init__(
        self,
        settings: Live[ModelSettings],
        now: Callable[[], float],
        meter: Meter | None = None,
        observe: Observe = lambda _: None,
    ) -> None:
        self._live = settings
        self.meter = meter
        self._now = now
        self.on_refused: Callable[[str, str], None] = lambda *_: None
        self._observe = observe
        self._opened = _Providers(settings(), meter, now, self._refused, observe)
        #: Those of earlier configurations: requests may still be under way.
        self._earlier: list[_Providers] = []

    @property
    def _providers(self) -> _Providers:
        settings = self._live()
        if settings != self._opened.settings:
            self._earlier.append(self._opened)
            self._opened = _Providers(settings, self.meter, self._now, self._refused, self._observe)
        return self._opened

    @property
    def settings(self) -> ModelSettings:
        """The configuration of the models that is in force."""
        return self._live()

    def _refused(self, provider: str, reason: str) -> None:
        self.on_refused(provider, reason)

    def state(self) -> list[str]:
        """Return a line about the last outcome of each provider in this process."""
        return [str(each) for each in self._providers.health.values()]

    @property
    def prices(self) -> Prices:
        """The prices of all models."""
        return self._providers.prices

    def price_of(self, provider: str, model: str, usage: Usage) -> int | None:
        """Return the price of a usage in micro-dollars; `None` if the model has no price."""
        return self.prices.of(provider, model, usage)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Live[ModelSettings],
        *,
        meter: Meter | None = None,
        now: Callable[[], float] = time.monotonic,
        observe: Observe = lambda _: None,
    ) -> AsyncIterator["Models"]:
        """Open every provider that is set up; the SDKs are imported on first use.

        Args:
            settings: Returns the configuration of the models.
            meter: Reserves an amount for each request; `None` where no limit can apply.
            now: A monotonic clock, in seconds.
            observe: Receives the event of each attempt.
        """
        models = cls(settings, now, meter, observe)
        async with AsyncExitStack() as stack:
            try:
                yield models
            finally:
                for each in (*models._earlier, models._opened):
                    for model in each.sdks.values():
                        stack.push_async_callback(model.aclose)

    async def warm(self) -> None:
        """Import the default provider's SDK and the prices in a thread, before they are needed."""
        if model := self._providers.sdks.get(self.settings.chosen):
            await model.sdk.get()
            await asyncio.to_thread(self.prices.load)

    def of(self, choice: ModelChoice) -> Model:
        """Return the `Model` for a choice: its provider, wrapped with the configured fallbacks."""
        now = self._providers
        others = [each for each in now.settings.fallback_choices if each != choice]
        if not others:
            return now.models[choice.provider]
        candidates = [
            now.fallbacks.add(str(each), each.model, now.models[each.provider])
            for each in (choice, *others)
        ]
        return FallbackModel(candidates[0], candidates[1:], now.fallbacks)

    def for_main(self, chosen: str) -> tuple[Model, str]:
        """Return the `Model` of the main agent and the model's name.

        Args:
            chosen: The model chosen in the conversation; empty for the default.
        """
        choice = self._kept(chosen)
        return self.of(choice), choice.model

    def admitted(self, chosen: str, rights: Rights) -> str:
        """Return the model chosen in a conversation, or the first that the rights admit instead.

        Raises:
            NotAllowedError: The rights admit none.
        """
        if not rights.levels:
            return chosen
        refused = ""
        for choice in dict.fromkeys((self._kept(chosen), *self.settings.choices)):
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
        """Return the `Model` for the provider and the model name of a run's row.

        It is the default model of runs if the provider is no longer set up.
        """
        gone = provider not in self._providers.models
        return self.of(self.settings.subagent if gone else ModelChoice(provider, model))

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

    def patience(self, provider: str) -> Patience:
        """Return a provider's retry handler, for requests other than those of agents."""
        return self._providers.patience.setdefault(
            provider, Patience(self.settings.retry, provider.title())
        )

    def named(self, name: str) -> str:
        """Return the allowed model with this name, as `provider/model`; the main agent's if empty.

        Raises:
            BadRequestError: No allowed model matches; the text lists the allowed models.
        """
        return str(self.settings.choose(None, name or None, self.settings.main))

    def kept(self, name: str) -> str:
        """Return the stored choice, or the main agent's model if that choice is not allowed now."""
        return str(self._kept(name))

    def _kept(self, name: str) -> ModelChoice:
        settings = self.settings
        try:
            return settings.choose(None, name or None, settings.main)
        except BadRequestError:
            return settings.main

    def only_talks(self, name: str) -> bool:
        """Return True for a model, as `provider/model`, that calls no tools."""
        return not self.settings.abilities.of(*name.split("/", 1)).tools

    def names(self) -> list[str]:
        """Return the names of all allowed models, the main agent's first."""
        return [str(choice) for choice in self.settings.choices]
