"""Searches with a self-hosted SearXNG."""

from bot.net.web import Site
from skills.web.search.base import Hit, Spent, check_status, hits, read_json, uncounted

_REFUSED = (
    "Tell the person that an admin must allow the format `json` there: `search.formats` in its "
    "settings.yml."
)


class SearxngSearch:
    """Searches with SearXNG.

    Args:
        site: The site of the SearXNG instance.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    async def search(
        self, query: str, *, most: int, spent: Spent = uncounted, background: bool = False
    ) -> tuple[Hit, ...]:
        """Return the pages found, best first."""
        answer = await self._site.ask("search", params={"q": query, "format": "json"})
        check_status(self._site.name, answer, refused=_REFUSED)
        return hits(read_json(self._site.name, answer).get("results"), "content")[:most]
