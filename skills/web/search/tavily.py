"""Searches with the Tavily API."""

from pydantic import SecretStr

from bot.net.web import Site
from skills.web.search.base import Hit, Spent, check_status, hits, read_json, uncounted

BASE_URL = "https://api.tavily.com"

_REFUSED = "Tell the person that an admin must look at the key, `search.api_key`."


class TavilySearch:
    """Searches with Tavily.

    Args:
        site: The API's site.
        api_key: The API key.
    """

    def __init__(self, site: Site, api_key: SecretStr) -> None:
        self._site = site
        self._api_key = api_key

    async def search(
        self, query: str, *, most: int, spent: Spent = uncounted, background: bool = False
    ) -> tuple[Hit, ...]:
        """Return the pages found, best first."""
        answer = await self._site.ask(
            "search",
            method="POST",
            headers={"Authorization": f"Bearer {self._api_key.get_secret_value()}"},
            json={"query": query, "max_results": most},
        )
        check_status(self._site.name, answer, refused=_REFUSED)
        return hits(read_json(self._site.name, answer).get("results"), "content")[:most]
