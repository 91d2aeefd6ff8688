"""Which search provider is meant, built from the settings."""

from pydantic import SecretStr

from bot.net.settings import FetchSettings
from bot.net.web import Site
from bot.search import brave, tavily
from bot.search.base import SearchProvider
from bot.search.ddgs import DdgsSearch, ddgs_engine
from bot.search.searxng import SearxngSearch
from bot.search.settings import SearchSettings


def provider_of(settings: SearchSettings, fetch: FetchSettings) -> SearchProvider | None:
    """Return what searches; `None` where nothing is configured.

    Raises:
        ConfigError: It needs a library that is not installed.
    """
    key = settings.api_key or SecretStr("")
    match settings.provider:
        case "searxng":
            return SearxngSearch(Site("SearXNG", settings.base_url or "", fetch))
        case "brave":
            site = Site("Brave Search", settings.base_url or brave.BASE_URL, fetch)
            return brave.BraveSearch(site, key)
        case "tavily":
            return tavily.TavilySearch(
                Site("Tavily", settings.base_url or tavily.BASE_URL, fetch), key
            )
        case "ddgs":
            return DdgsSearch(ddgs_engine())
    return None
