"""Searches with services that have a search API: a new one is a row of `SERVICES`."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from bot.net.web import Site
from bot.values import Json
from skills.web.search.base import NOBODY, Hit, SearchCaller, SearchError, hits

_WRONG_KEY = "Tell the user that an admin must look at the key, `search.api_key`."
_NO_JSON = (
    "Tell the user that an admin must allow the format `json` there: `search.formats` in its "
    "settings.yml."
)


@dataclass(frozen=True, slots=True)
class SearchService:
    """A search API.

    Attributes:
        name: The name of the service, for error texts.
        base_url: Its address; empty for a service that everyone hosts themselves.
        path: The path of a search.
        request: Returns the arguments of `Site.ask` for a query, the most results and a key.
        text_key: The key of the excerpt in a result.
        refused: Advice for the error text when the service denies access.
        within: The key of the object that holds the `results`; empty for the top level.
    """

    name: str
    base_url: str
    path: str
    request: Callable[[str, int, str], Json]
    text_key: str
    refused: str = _WRONG_KEY
    within: str = ""


SERVICES: Mapping[str, SearchService] = {
    "searxng": SearchService(
        "SearXNG",
        "",
        "search",
        lambda query, most, key: {"params": {"q": query, "format": "json"}},
        "content",
        refused=_NO_JSON,
    ),
    "brave": SearchService(
        "Brave Search",
        "https://api.search.brave.com",
        "res/v1/web/search",
        lambda query, most, key: {
            "params": {"q": query, "count": str(most), "text_decorations": "false"},
            "headers": {"X-Subscription-Token": key},
        },
        "description",
        within="web",
    ),
    "tavily": SearchService(
        "Tavily",
        "https://api.tavily.com",
        "search",
        lambda query, most, key: {
            "method": "POST",
            "headers": {"Authorization": f"Bearer {key}"},
            "json": {"query": query, "max_results": most},
        },
        "content",
    ),
}


@dataclass(frozen=True, slots=True)
class ServiceSearch:
    """Searches with a service: the `SearchProvider` of those in `SERVICES`.

    Attributes:
        site: The service's site.
        api_key: The key; empty for a service that needs none.
    """

    service: SearchService
    site: Site
    api_key: SecretStr

    async def search(
        self, query: str, *, most: int, caller: SearchCaller = NOBODY
    ) -> tuple[Hit, ...]:
        """Return the pages found, best first."""
        service = self.service
        request = service.request(query, most, self.api_key.get_secret_value())
        answer = await self.site.ask(service.path, **request)
        if answer.status in {401, 402, 403, 422}:
            raise SearchError(f"{service.name} does not let me search. {service.refused}")
        if answer.status == 429:
            raise SearchError(
                f"{service.name} allows no more searches for now. Try later, or do without."
            )
        try:
            found = json.loads(answer.content) if answer.status == 200 else None
        # `RecursionError`: the document is nested too deeply.
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise SearchError(
                f"{service.name} gives no usable answer now. Try again later, or do without."
            )
        if service.within:
            found = found.get(service.within)
        results = found.get("results") if isinstance(found, dict) else None
        return hits(results, service.text_key)[:most]
