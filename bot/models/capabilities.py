"""Capabilities of models: an admin's own, else those of the catalogue; makes requests fit them.

The catalogue `capabilities.json` is made from the list of litellm by `python -m
tests.model_catalogue`. A model that stands in neither is taken to call tools and read images, and
to have nothing else.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from bot.agent.context import fit
from bot.agent.messages import (
    Answer,
    Message,
    ToolResults,
    UserMessage,
    estimate_tokens,
    holds_images,
)
from bot.errors import ImagesRefusedError
from bot.models.base import Model, ModelRequest, OnText, offered
from bot.setting_types import MOST_TOKENS
from bot.values import Settings

#: Part of the price of a new input token that one costs which the provider has cached, where
#: nothing else is known.
USUAL_WEIGHT = 0.1
#: Endings and beginnings of names that only say which copy of a model is meant: dates, versions of
#: Bedrock, regions of Bedrock, tags of Ollama.
_COPIES = re.compile(r"(-\d{8}|-\d{4}-\d\d-\d\d|@[\w-]+|(-v\d)?:\d+|:[\w.-]+)$")
#: The number of a release within a generation: `claude-opus-5-7`, `gpt-5.9`.
_MINOR = re.compile(r"-\d{1,2}$")
#: Most names that a process remembers: a server may name another model in each answer.
MOST_NAMES = 1000
#: Vendors whose releases are named so.
MAKERS = ("anthropic", "openai")
_REGIONS = re.compile(r"^([a-z]{2}(-gov)?|apac|global)\.(?=[a-z])")
#: The end of the prompt of a model that calls no tools.
PLAIN = (
    "You cannot call tools here: you only write text. If something needs a tool, say that this "
    "model cannot do it, and that `/retinue model` shows others."
)
NO_IMAGES = "{} does not read images. Describe what they show, or choose another model."
#: Part of the context that a request may fill: the number of its tokens is an estimate.
_FILLED = 0.95


class CapabilitySettings(Settings):
    """Capabilities of a model, where the catalogue does not know it or is wrong."""

    tools: bool | None = None
    """True if it calls tools. A model without tools only talks."""

    images: bool | None = None
    """True if it reads images."""

    thinking: bool | None = None
    """True if it takes adaptive thinking (Claude)."""

    effort: bool | None = None
    """True if it takes an effort."""

    context_tokens: int | None = Field(None, ge=1000, le=MOST_TOKENS)
    """The most tokens of a request with its answer."""

    output_tokens: int | None = Field(None, ge=100, le=MOST_TOKENS)
    """The most tokens of an answer."""

    cache_minimum: int | None = Field(None, ge=0, le=MOST_TOKENS)
    """The fewest tokens that its provider caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The capabilities of one model.

    Attributes:
        known: Whether the catalogue has the model.
        thinking: Whether it takes adaptive thinking.
        effort: Whether it takes an effort.
        loads_tools: Whether it loads a tool when a result refers to it.
        context_tokens: The most tokens of a request with its answer; `None` if unknown.
        output_tokens: The most tokens of an answer; `None` if unknown.
        cache_minimum: The fewest tokens that its provider caches; `None` if unknown.
        cached_weight: Part of the price of a new input token that a cached one costs.
    """

    known: bool = False
    tools: bool = True
    images: bool = True
    thinking: bool = False
    effort: bool = False
    loads_tools: bool = False
    context_tokens: int | None = None
    output_tokens: int | None = None
    cache_minimum: int | None = None
    cached_weight: float = USUAL_WEIGHT


UNKNOWN = Capabilities()
#: Returns the capabilities of a provider's model by its name.
Knows = Callable[[str], Capabilities]


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """Finds the capabilities of models.

    Attributes:
        own: What an admin set, by `provider/model` or by model.
        vendors: The catalogue's vendors by provider, where the names differ.
    """

    own: Mapping[str, CapabilitySettings] = field(default_factory=dict)
    vendors: Mapping[str, str] = field(default_factory=dict)

    def of(self, provider: str, model: str) -> Capabilities:
        """Return the capabilities of a model of a provider."""
        found = _listed(self.vendors.get(provider, provider), model)
        own = self.own.get(f"{provider}/{model}") or self.own.get(model)
        if own is None:
            return found
        given = {name: getattr(own, name) for name in type(own).model_fields}
        return replace(found, **{name: value for name, value in given.items() if value is not None})


def cached_weight(model: str) -> float:
    """Return the weight of an input token that a model reads from a cache; a new one weighs 1."""
    return _listed("", model).cached_weight


@lru_cache(maxsize=MOST_NAMES)
def _listed(vendor: str, model: str) -> Capabilities:
    """Return the capabilities in the catalogue: of the vendor's model, or of one with its name."""
    by_vendor, by_name = _catalogue()
    for name in _spellings(model):
        if entry := by_vendor.get(f"{vendor}/{name}"):
            return _read(entry, model)
    names = [*map(_bare, _spellings(model))]
    if vendor in MAKERS:
        # A later release of a generation that is known can do what that generation can.
        names += [shorter for name in names if (shorter := _MINOR.sub("", name)) != name]
    return next((_read(by_name[name], model) for name in names if name in by_name), UNKNOWN)


def _spellings(model: str) -> list[str]:
    """Return a name, and the shorter ones that mean the same model."""
    names = [model, model.lower()]
    for _ in range(3):
        shorter = _REGIONS.sub("", _COPIES.sub("", names[-1]))
        if shorter in {"", names[-1]}:
            break
        names.append(shorter)
    return names


def _bare(name: str) -> str:
    """Return a name as all gateways could have meant it: without a path, with hyphens alone."""
    last = name.rpartition("/")[2].lower()
    return last.rpartition("anthropic.")[2].replace(".", "-")


def _read(entry: list[Any], model: str) -> Capabilities:
    context, output, flags, minimum, weight = [*entry, None, None, None, None][:5]
    # An entry without a size is a stub, which says nothing about the rest.
    stub = context is None
    is_claude = "claude" in model.lower()
    return Capabilities(
        known=True,
        tools=stub or "t" in flags,
        images=stub or "v" in flags,
        thinking="a" in flags,
        effort="e" in flags if is_claude else "r" in flags,
        loads_tools="l" in flags,
        context_tokens=context,
        output_tokens=output,
        cache_minimum=minimum,
        cached_weight=USUAL_WEIGHT if weight is None else min(1.0, weight),
    )


@cache
def _catalogue() -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return the entries by `vendor/model`, and by the bare name alone."""
    text = Path(__file__).with_name("capabilities.json").read_text(encoding="utf-8")
    models: dict[str, list[Any]] = json.loads(text)["models"]
    by_name: dict[str, list[Any]] = {}
    # The makers' own entries first: those of others may lack fields.
    for own in (True, False):
        for name, entry in models.items():
            if own == (name.partition("/")[0] in MAKERS):
                by_name.setdefault(_bare(name), entry)
    return models, by_name


@dataclass(frozen=True, slots=True)
class FittedModel:
    """Wraps the models of a provider.

    Attributes:
        model: The provider.
        capabilities: Returns the capabilities of a model by its name.
    """

    model: Model
    capabilities: Callable[[str], Capabilities]

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        """Return the model's answer; see `bot.models.base.Model`."""
        return await self.model.ask(fitted(request, self.capabilities(request.model)), on_text)


def fitted(request: ModelRequest, can: Capabilities) -> ModelRequest:
    """Return a request as the model can take it.

    Raises:
        ImagesRefusedError: It holds images, which the model does not read.
    """
    if not can.images and holds_images(request.messages):
        raise ImagesRefusedError(NO_IMAGES.format(request.model))
    if not can.tools and (
        request.tools or any(isinstance(each, ToolResults) for each in request.messages)
    ):
        prompt = f"{request.prompt}\n\n{PLAIN}".strip()
        messages = tuple(map(_as_talk, request.messages))
        # Calls that it makes up are text.
        request = replace(
            request, prompt=prompt, messages=messages, tools=(), found=(), tools_allowed=False
        )
    if can.output_tokens is not None and request.max_tokens > can.output_tokens:
        request = replace(request, max_tokens=can.output_tokens)
    if can.context_tokens is None:
        return request
    room = int(can.context_tokens * _FILLED)
    # A small context is shared: an answer takes a quarter of it at most.
    output = min(request.max_tokens, max(1, can.context_tokens // 4))
    fixed = estimate_tokens(request.prompt) + offered(request.tools).size
    left = max(room // 4, room - output - fixed)
    size = estimate_tokens(request.messages)
    if size > left:
        shown = fit(request.messages, tokens=left, result_characters=3 * left)
        omitted = len(request.messages) - len(shown)
        request = replace(request, messages=shown, history=max(0, request.history - omitted))
        size = estimate_tokens(shown)
    if fixed + size + request.max_tokens > room:
        request = replace(request, max_tokens=output)
    return request


def _as_talk(message: Message) -> Message:
    """Return a message without calls: those of another model, and their results, become text."""
    match message:
        case ToolResults(results, note):
            parts = [f"Result of a tool:\n{each.text}" for each in results]
            return UserMessage("\n\n".join(filter(None, (*parts, note))))
        case Answer(calls=calls) if calls:
            names = ", ".join(call.name for call in calls)
            text = f"{message.text}\n\n(I called these tools: {names}.)".strip()
            return replace(message, text=text, calls=(), native=None)
    return message
