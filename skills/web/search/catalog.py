"""Builds the search provider that the settings name."""

from contextlib import AsyncExitStack

from pydantic import SecretStr

from bot.models.anthropic import Claude
from bot.net.settings import FetchSettings
from bot.net.web import Site
from skills.web.search.anthropic import ClaudeSearch
from skills.web.search.base import SearchProvider
from skills.web.search.ddgs import DdgsSearch, ddgs_engine
from skills.web.search.services import SERVICES, ServiceSearch
from skills.web.settings import SearchSettings


def open_provider(
    stack: AsyncExitStack, settings: SearchSettings, fetch: FetchSettings, claude: Claude
) -> SearchProvider | None:
    """Open the configured search provider; `None` where none is configured.

    Args:
        stack: Closes the provider.
        settings: Selects the provider.
        fetch: Network settings for requests to services.
        claude: The connection to Claude.

    Raises:
        ConfigError: The provider needs a library that is not installed.
    """
    if settings.provider == "anthropic" or (settings.provider == "auto" and claude.answers):
        search = ClaudeSearch(claude, settings.model)
        stack.push_async_callback(search.aclose)
        return search
    if settings.provider == "ddgs":
        return DdgsSearch(ddgs_engine())
    service = SERVICES.get(settings.provider or "")
    if service is None:
        return None
    site = Site(service.name, settings.base_url or service.base_url, fetch)
    return ServiceSearch(service, site, settings.api_key or SecretStr(""))
