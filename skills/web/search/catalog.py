"""Builds the search provider that the settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import SecretStr

from bot.models.anthropic_client import Claude
from bot.net.settings import FetchSettings
from bot.net.web import Site
from skills.web.search import brave, tavily
from skills.web.search.anthropic import ClaudeSearch
from skills.web.search.base import SearchProvider
from skills.web.search.ddgs import DdgsSearch, ddgs_engine
from skills.web.search.searxng import SearxngSearch
from skills.web.settings import SearchSettings


@asynccontextmanager
async def open_provider(
    settings: SearchSettings, fetch: FetchSettings, claude: Claude
) -> AsyncIterator[SearchProvider | None]:
    """Open the configured search provider; `None` where none is configured.

    Args:
        settings: Selects the provider.
        fetch: Network settings for requests to services.
        claude: The connection to Claude.

    Raises:
        ConfigError: The provider needs a library that is not installed.
    """
    if settings.provider == "anthropic" or (settings.provider == "auto" and claude.answers):
        async with ClaudeSearch.open(claude, settings.model) as search:
            yield search
    else:
        yield provider_of(settings, fetch)


def provider_of(settings: SearchSettings, fetch: FetchSettings) -> SearchProvider | None:
    """Return the configured provider, if it is one that needs no opening.

    Raises:
        ConfigError: The provider needs a library that is not installed.
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
