"""Builds the search provider that the settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import SecretStr

from bot.models.anthropic_client import Claude
from bot.net.settings import FetchSettings
from bot.net.web import Site
from skills.web.search.anthropic import ClaudeSearch
from skills.web.search.base import SearchProvider
from skills.web.search.ddgs import DdgsSearch, ddgs_engine
from skills.web.search.services import SERVICES, ServiceSearch
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
    if settings.provider == "ddgs":
        return DdgsSearch(ddgs_engine())
    service = SERVICES.get(settings.provider or "")
    if service is None:
        return None
    return ServiceSearch(
        service, Site(service.name, settings.base_url or service.base_url, fetch), key
    )
