"""Searches with the Brave Search API."""

from pydantic import SecretStr

from bot.net.web import Site
from skills.web.search.base import Hit, Spent, check_status, hits, read_json, uncounted

BASE_URL = "https://api.search.brave.com"

_REFUSED = "Tell the person that an admin must look at the key, `search.api_key`."


class BraveSearch:
    """Searches with Brave.

    Args:
        site: The API's site.
        api_key: The subscription token.
    """

    def __init__(self, site: Site, api_key: SecretStr) -> None:
        self._site = site
        self._api_key = api_key

    async def search(
        self, query: str, *, most: int, spent: Spent = uncounted, background: bool = False
    ) -> tuple[Hit, ...]:
        """Return the pages found, best first."""
        answer = await self._site.ask(
            "res/v1/web/search",
            params={"q": query, "count": str(most), "text_decorations": "false"},
            headers={"X-Subscription-Token": self._api_key.get_secret_value()},
        )
        check_status(self._site.name, answer, refused=_REFUSED)
        web = read_json(self._site.name, answer).get("web")
        return hits(web.get("results") if isinstance(web, dict) else (), "description")[:most]
