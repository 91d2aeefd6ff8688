"""Reports for `check` how the web is searched."""

from collections.abc import Iterator, Mapping

from bot.models.catalog import ModelSettings
from bot.values import Sections
from skills.web.settings import SearchSettings

TITLE = "Web search"


def lines(config: Sections, _: Mapping[str, str]) -> Iterator[str]:
    """Yield the provider and its cost."""
    provider = config.section(SearchSettings).provider
    if provider == "auto":
        claude = config.section(ModelSettings).chosen == "anthropic"
        provider = "anthropic" if claude else None
    if provider is None:
        yield "off: set `search.provider` to let agents search the web"
    elif provider == "anthropic":
        yield "Claude searches, and each search costs money; `search.provider: null` ends that"
    else:
        yield f"on, with {provider}"
