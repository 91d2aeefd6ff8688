"""Simulates the prompt cache of the Anthropic API: the tokens that recorded requests would cost.

The rules: the order is tools, system, messages; an entry is written at a breakpoint only; a
breakpoint reads the longest entry at most 20 blocks back; a prefix below 512 tokens is not cached;
another model, tool or system prompt changes everything behind it, another `tool_choice` changes the
messages. A deferred tool stands where a result first refers to it. Entries never expire here.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bot.agent.messages import Usage
from bot.values import Json

LOOKBACK_BLOCKS = 20
MINIMUM_TOKENS = 512
CHARACTERS_PER_TOKEN = 4
#: Blocks on which the API refuses a breakpoint; the automatic one goes to the block before.
NOT_CACHEABLE = frozenset({"thinking", "redacted_thinking"})


@dataclass(frozen=True, slots=True)
class Prefix:
    """A request up to the end of one block.

    Attributes:
        key: The same for equal prefixes, and only for these.
        tokens: Of the whole prefix.
        breakpoint: Whether an entry is written and looked up here.
    """

    key: str
    tokens: int
    breakpoint: bool


def prefixes(body: Json) -> list[Prefix]:
    """Return the prefixes of a request, one for each of its blocks."""
    tools = body.get("tools") or ()
    blocks = [("tool", tool) for tool in tools if not tool.get("defer_loading")]
    deferred = {tool["name"]: tool for tool in tools if tool.get("defer_loading")}
    blocks += [("system", block) for block in body.get("system") or ()]
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        blocks += [(message["role"], _loaded(block, deferred)) for block in content]
    automatic = -1
    if body.get("cache_control"):
        kinds = [block.get("type") for _, block in blocks]
        automatic = max(at for at, kind in enumerate(kinds) if kind not in NOT_CACHEABLE)
    found: list[Prefix] = []
    key, tokens, in_messages = hashlib.sha256(body["model"].encode()), 0, False
    for at, (role, block) in enumerate(blocks):
        if role not in {"tool", "system"} and not in_messages:
            in_messages = True
            key.update(json.dumps(body.get("tool_choice")).encode())
        spelled = json.dumps([role, {k: v for k, v in block.items() if k != "cache_control"}])
        key.update(spelled.encode())
        tokens += len(spelled) // CHARACTERS_PER_TOKEN + 1
        marked = "cache_control" in block or at == automatic
        found.append(Prefix(key.hexdigest(), tokens, marked))
    return found


def _loaded(block: Json, deferred: Mapping[str, Json]) -> Json:
    """Return a block with the tools that it refers to."""
    inner = block.get("content")
    if not isinstance(inner, list):
        return block
    return block | {"content": [deferred.get(each.get("tool_name"), each) for each in inner]}


@dataclass(slots=True)
class PromptCache:
    """The entries that requests have written so far."""

    entries: set[str] = field(default_factory=set)

    def usage(self, body: Json, *, output: int = 0) -> Usage:
        """Return what a request costs, and store what it writes."""
        parts = prefixes(body)
        read = max((self._hit(parts, at) for at, part in enumerate(parts) if part.breakpoint))
        written = [p for p in parts if p.breakpoint and p.tokens >= MINIMUM_TOKENS]
        self.entries.update(part.key for part in written)
        last = max((part.tokens for part in written), default=0)
        whole = parts[-1].tokens
        return Usage(
            whole - max(last, read), output, cache_read=read, cache_write=max(0, last - read)
        )

    def _hit(self, parts: list[Prefix], at: int) -> int:
        """Return the tokens that the breakpoint at this block reads."""
        back = reversed(parts[max(0, at + 1 - LOOKBACK_BLOCKS) : at + 1])
        return next((part.tokens for part in back if part.key in self.entries), 0)


def paid(bodies: Iterable[Json], *, read_weight: float, write_weight: float = 1.0) -> float:
    """Return the input tokens that requests cost one after another, weighted."""
    cache = PromptCache()
    usages = [cache.usage(body) for body in bodies]
    return sum(
        usage.input + write_weight * usage.cache_write + read_weight * usage.cache_read
        for usage in usages
    )


def best_possible(
    bodies: Iterable[Json], *, read_weight: float, write_weight: float = 1.0
) -> float:
    """Return what they would cost if all that an earlier request began with were read.

    All else is written to the cache.
    """
    seen: set[str] = set()
    cost = 0.0
    for body in bodies:
        parts = prefixes(body)
        known = max((part.tokens for part in parts if part.key in seen), default=0)
        known = known if known >= MINIMUM_TOKENS else 0
        cost += write_weight * (parts[-1].tokens - known) + read_weight * known
        seen.update(part.key for part in parts)
    return cost
