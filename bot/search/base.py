"""The port of searches: what every provider gives."""

import html
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bot.agent.messages import Usage
from bot.errors import ToolError
from bot.net.base import Answer
from bot.values import Json

_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


class SearchError(ToolError):
    """A search gave nothing that can be used; the text says what to try."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that was found.

    Attributes:
        text: An excerpt, or what the page is about.
    """

    title: str
    url: str
    text: str


#: Takes what a search asked of a model.
Spent = Callable[[Usage], None]


def uncounted(usage: Usage) -> None:
    """Take a cost that nobody counts."""


class SearchProvider(Protocol):
    """Finds pages."""

    async def search(
        self, query: str, *, most: int, spent: Spent = uncounted, background: bool = False
    ) -> tuple[Hit, ...]:
        """Return the best pages first; none when nothing fits.

        Args:
            query: What to look for.
            most: The most pages to return.
            spent: Is told of each request to a model, if it takes any.
            background: A background run asks: requests to a model wait behind those of turns.

        Raises:
            ToolError: The search does not work now.
        """
        ...


def read_json(name: str, answer: Answer) -> Json:
    """Return the object that a service answered with.

    Raises:
        SearchError: It answered with something else.
    """
    try:
        found = json.loads(answer.content)
    # A document that is nested too deeply is the second.
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SearchError(f"{name} gives no usable answer now. Try again later, or do without.")
    return found


def hits(found: object, text_key: str) -> tuple[Hit, ...]:
    """Return what a service found, from its list of objects; what is malformed is left out."""
    if not isinstance(found, list):
        return ()
    read = (_hit(each, text_key) for each in found if isinstance(each, Mapping))
    return tuple(hit for hit in read if hit is not None)


def check_status(name: str, answer: Answer, *, refused: str) -> None:
    """See that a service answered at all.

    Args:
        name: Of the service.
        answer: What it said.
        refused: What a person must do where it does not let us search.

    Raises:
        SearchError: It did not.
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
    """Return a text without the marks for the words that were looked for."""
    return html.unescape(_TAG.sub("", text)) if isinstance(text, str) else ""
