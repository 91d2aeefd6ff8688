"""Searches with ddgs: scrapes several search engines without an API key. An optional extra."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from bot.errors import ConfigError
from skills.web.search.base import NOBODY, Hit, SearchCaller, SearchError, hits

log = logging.getLogger(__name__)

SECONDS = 10

#: Takes a query and the most results, and returns objects with `title`, `href` and `body`.
Engine = Callable[[str, int], Sequence[Mapping[str, object]]]


class DdgsSearch:
    """Searches with ddgs.

    Args:
        engine: Runs a query; it may block.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def search(
        self, query: str, *, most: int, caller: SearchCaller = NOBODY
    ) -> tuple[Hit, ...]:
        """Return the pages found, best first."""
        try:
            found = await asyncio.to_thread(self._engine, query, most)
        except Exception as error:  # noqa: BLE001 - named in BOUNDARIES
            # ddgs scrapes pages that change without notice, and raises when it finds nothing.
            log.warning("ddgs found nothing: %s", error)
            raise SearchError(
                "The search found nothing, or does not work now. Try other words, or do without."
            ) from None
        renamed = [{**each, "url": each.get("href")} for each in found]
        return hits(renamed, "body")[:most]


def ddgs_engine() -> Engine:
    """Return the engine of the ddgs library.

    Raises:
        ConfigError: The library is not installed.
    """
    try:
        from ddgs import DDGS  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise ConfigError(
            "`search.provider: ddgs` needs a library that is not installed: pip install "
            '"ddgs>=9.16".'
        ) from None

    def ask(query: str, most: int) -> Sequence[Mapping[str, object]]:
        found: list[dict[str, object]] = DDGS(timeout=SECONDS).text(query, max_results=most)
        return found

    return ask
