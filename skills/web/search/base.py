"""Port of web search: the interface of all providers, and their shared response handling."""

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bot.agent.messages import Usage
from bot.errors import ToolError
from bot.spending.pools import Payer

_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


class SearchError(ToolError):
    """A search failed; the text says what to try."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that was found.

    Attributes:
        text: An excerpt or a summary.
    """

    title: str
    url: str
    text: str


#: Receives the usage of each model request that a search makes.
Spent = Callable[[Usage], None]


def uncounted(usage: Usage) -> None:
    """Discard a usage: the default for callers that do not count costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCaller:
    """The work that searches.

    Attributes:
        spent: Receives the usage of each model request.
        background: Whether it is a background run, whose requests queue behind those of turns.
        payer: The payer whose spending limits apply; `None` for none.
    """

    spent: Spent = uncounted
    background: bool = False
    payer: Payer | None = None


#: A caller that pays for nothing.
NOBODY = SearchCaller()


class SearchProvider(Protocol):
    """Searches the web for pages."""

    async def search(
        self, query: str, *, most: int, caller: SearchCaller = NOBODY
    ) -> tuple[Hit, ...]:
        """Return the pages found, best first; empty when no page matches.

        Args:
            query: The search query.
            most: Most pages to return.
            caller: The work that pays for requests to a model, if the provider makes any.

        Raises:
            ToolError: The search does not work now.
        """


def hits(found: object, text_key: str) -> tuple[Hit, ...]:
    """Return the hits in a service's list of objects; malformed ones are left out."""
    if not isinstance(found, list):
        return ()
    read = []
    for each in found:
        title, url, text = (
            each.get(key) if isinstance(each, Mapping) else None
            for key in ("title", "url", text_key)
        )
        if isinstance(url, str) and url.lower().startswith(("https://", "http://")):
            read.append(Hit(_plain(title) or url, url, _plain(text)))
    return tuple(read)


def _plain(text: object) -> str:
    """Return a text without HTML tags, which highlight the query's words."""
    return html.unescape(_TAG.sub("", text)) if isinstance(text, str) else ""
