"""Capabilities of models: an admin's own, and otherwise those of the catalogue.

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

    context_tokens: int | None = Field(None, ge=1000)
    """The most tokens of a request with its answer."""

    output_tokens: int | None = Field(None, ge=100)
    """The most tokens of an answer."""

    cache_minimum: int | None = Field(None, ge=0)
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
