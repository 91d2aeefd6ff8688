"""Finds tools and agents that a request does not carry, and calls them under their own names.

A request of the main agent carries the tools that its place uses; the rest is searched with
`find_tools` and `find_agents`. A model that loads tools on demand gets a found tool declared; any
other calls it with `use_tool`, which the runtime replaces by a call of the tool itself.
"""

import asyncio
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from bot.agent.messages import ToolCall, estimate_tokens
from bot.values import Json
from skills.base import Tool, ToolContext, ToolError, reads_here

FIND_TOOLS, FIND_AGENTS, USE_TOOL = "find_tools", "find_agents", "use_tool"

#: Most tools and agents that one search returns.
FOUND = 5
#: Most words of a query that are searched, and characters of it that are read: without a limit,
#: 20,000 words take 15 s.
QUERY_WORDS, QUERY_CHARACTERS = 50, 2_000
#: Characters of a result; the first tool is always returned whole.
RESULT_CHARACTERS = 8_000
#: Services that the description of `find_tools` names.
SERVICES = 40

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: The numbers are the weights of name, description and arguments.
_FIND = """\
SELECT id FROM entries WHERE entries MATCH ? ORDER BY bm25(entries, 4.0, 2.0, 1.0), id LIMIT ?"""


def meant(call: ToolCall) -> ToolCall:
    """Return the call that a call of `use_tool` stands for; any other call unchanged."""
    if call.name != USE_TOOL or call.malformed:
        return call
    name, arguments = call.arguments.get("name"), call.arguments.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict) or name == USE_TOOL:
        return call
    return ToolCall(call.id, name.strip(), arguments)


def ranked(entries: Iterable[tuple[str, str, str]], query: str, most: int = FOUND) -> list[str]:
    """Return the names of the entries that fit a query best, the best first.

    The words of names, descriptions and arguments are compared in their English stems, and rare
    words count more (BM25 of SQLite's FTS5). It blocks: 10,000 tools take 200 ms.

    Args:
        entries: Name, description, and further words of each entry.
        query: The words to search for; the first `QUERY_WORDS` count.
        most: The number of names.
    """
    text = _HUMP.sub(" ", query[:QUERY_CHARACTERS])
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))[:QUERY_WORDS]
    if not words:
        return []
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.execute(
            "CREATE VIRTUAL TABLE entries USING fts5"
            "(name, description, further, id UNINDEXED, tokenize='porter unicode61')"
        )
        rows = (
            (" ".join(_WORD.findall(_HUMP.sub(" ", name))), description, further, name)
            for name, description, further in entries
        )
        memory.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", rows)
        match = " OR ".join(f'"{word}"' for word in words)
        found = memory.execute(_FIND, (match, most))
        return [name for (name,) in found]


def search_tools(hidden: Mapping[str, Tool], agents: Mapping[str, str]) -> tuple[Tool, ...]:
    """Return the tools that find what a request does not carry; none if it carries all.

    Args:
        hidden: The tools that the request leaves out.
        agents: The descriptions of the agents that it leaves out, by name.
    """
    found: tuple[Tool, ...] = ()
    if hidden:
        found = (_find_tools(hidden), _use_tool())
    if agents:
        found = (*found, _find_agents(agents))
    return found


def tokens_of(tool: Tool) -> int:
    """Return the estimated tokens of a tool in a request."""
    return estimate_tokens(f"{tool.description}{tool.schema}")


def _find_tools(hidden: Mapping[str, Tool]) -> Tool:
    @reads_here(name=FIND_TOOLS, foreign=False, private=False)
    async def find_tools(
        context: ToolContext,
        query: Annotated[str, "What is to be done, in English words"],
    ) -> str:
        """Find tools that are not listed here."""

        def search() -> list[str]:
            every = hidden.values()
            return ranked(
                ((each.name, each.description, _fields(each.schema)) for each in every), query
            )

        names = await asyncio.to_thread(search)
        if not names:
            raise ToolError(f"No tool fits. Try other words. There are tools of: {_groups(hidden)}")
        context.found(names)
        head = f"Call one with {USE_TOOL}, or by its name if it is listed as a tool:"
        # The last ones by name if the text becomes too long.
        shown: list[str] = []
        left = RESULT_CHARACTERS
        for each in (hidden[name] for name in names):
            schema = json.dumps(each.schema, ensure_ascii=False)
            text = f"{each.name}: {each.description}\nArguments: {schema}"
            if shown and len(text) > left:
                text = f"{each.name}: search for it alone to see its arguments"
            left -= len(text)
            shown.append(text)
        return "\n\n".join([head, *shown])

    more = f"There are {len(hidden)} more, of: {_groups(hidden)}."
    return replace(find_tools, description=f"{find_tools.description} {more}")


def _find_agents(agents: Mapping[str, str]) -> Tool:
    @reads_here(name=FIND_AGENTS, foreign=False, private=False)
    async def find_agents(
        _: ToolContext,
        query: Annotated[str, "The kind of work, in English words"],
    ) -> str:
        """Find agents that are not listed here, to name when you hand work over."""
        entries = [(name, text, "") for name, text in agents.items()]
        names = await asyncio.to_thread(ranked, entries, query)
        if not names:
            raise ToolError("No agent fits. Try other words, or hand the work to `general`.")
        return "\n".join(f"- {agents[name]}" for name in names)

    return replace(
        find_agents, description=f"{find_agents.description} There are {len(agents)} more."
    )


def _use_tool() -> Tool:
    @reads_here(name=USE_TOOL, foreign=False, private=False)
    async def use_tool(
        _: ToolContext,
        name: Annotated[str, Field(max_length=100), f"A name from {FIND_TOOLS}"],
        arguments: Annotated[Json, "Its arguments"],
    ) -> str:
        """Call a tool that is not listed here."""
        raise ToolError(f"{USE_TOOL} cannot call itself. Name a tool that {FIND_TOOLS} returned.")

    return use_tool


def _groups(hidden: Mapping[str, Tool]) -> str:
    """Return the services that tools belong to, with their numbers of tools."""
    parts = (name.split("__") for name in hidden)
    groups = Counter(each[1] if len(each) > 2 else "the bot itself" for each in parts)
    named = [f"{group} ({count})" for group, count in sorted(groups.items())]
    more = [f"{len(named) - SERVICES} other services"] if len(named) > SERVICES else []
    return ", ".join([*named[:SERVICES], *more])


def _fields(schema: Json) -> str:
    """Return the names and descriptions of a tool's arguments."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return ""
    return " ".join(
        f"{name} {each.get('description', '') if isinstance(each, dict) else ''}"
        for name, each in properties.items()
    )
