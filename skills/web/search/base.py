"""Port of web search: the interface of all providers, and their shared response handling."""

import html
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bot.agent.messages import Usage
from bot.errors import ToolError
from bot.net.base import WebResponse
from bot.values import Json

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


class SearchProvider(Protocol):
    """Searches the web for pages."""

    async def search(
        self, query: str, *, most: int, spent: Spent = uncounted, background: bool = False
    ) -> tuple[Hit, ...]:
        """Return the pages found, best first; empty when no page matches.

        Args:
            query: The search query.
            most: Most pages to return.
            spent: Called with the usage of each request to a model, if the provider makes any.
            background: Called from a background run: requests to a model queue behind those of
                turns.

        Raises:
            ToolError: The search does not work now.
        """
        ...


def read_json(name: str, answer: WebResponse) -> Json:
    """Return the JSON object in a response.

    Raises:
        SearchError: The response is no JSON object.
    """
    try:
        found = json.loads(answer.content)
    # `RecursionError`: the document is nested too deeply.
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SearchError(f"{name} gives no usable answer now. Try again later, or do without.")
    return found


def hits(found: object, text_key: str) -> tuple[Hit, ...]:
    """Return the hits in a service's list of objects; malformed ones are left out."""
    if not isinstance(found, list):
        return ()
    read = (_hit(each, text_key) for each in found if isinstance(each, Mapping))
    return tuple(hit for hit in read if hit is not None)


def check_status(name: str, answer: WebResponse, *, refused: str) -> None:
    """Raise unless a service answered with status 200.

    Args:
        name: The service's name.
        answer: Its response.
        refused: Advice for the error text when the service denies access.

    Raises:
        SearchError: The status is not 200.
    """
    if answer.status in {401, 402, 403, 422}:
        raise SearchError(f"{name} does not let me search. {refused}")
    if answer.status == 429:
        raise SearchError(f"{name} allows no more searches for now. Try later, or do without.")
    if answer.status != 200:
        raise SearchError(f"{name} gives no usable answer now. Try again later, or do without.")


def _hit(found: Mapping[str, object], text_key: str) -> Hit | None:
    title, url, text = (found.get(key) for key in ("title", "url", text_key))
    if not isinstance(url, str) or not url.lower().startswith(("https://", "http://")):
        return None
    return Hit(_plain(title) or url, url, _plain(text))


def _plain(text: object) -> str:
    """Return a text without HTML tags, which highlight the query's words."""
    return html.unescape(_TAG.sub("", text)) if isinstance(text, str) else ""
