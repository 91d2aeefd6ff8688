"""Settings of the web (`web:` and `search:`)."""

from typing import ClassVar, Literal, Self

from pydantic import Field, SecretStr, model_validator

from bot.setting_types import plain_secret
from bot.values import SkillSettings

ProviderName = Literal["auto", "anthropic", "searxng", "brave", "tavily", "ddgs"]


class WebSettings(SkillSettings):
    """Everything under `web:`: what agents may tell the web."""

    section: ClassVar[str] = "web"
    about: ClassVar[str] = "What agents may tell the web."

    composed_addresses: Literal["ask", "allow", "deny"] = "ask"
    """The treatment of an address that a model composed after it has read private material (files,
    notes, memories, calendars), which the address could carry away: ask the user, allow or deny.
    Runs without approvals are refused what would be asked.
    """


class SearchSettings(SkillSettings):
    """Everything under `search:`: with what the tool web_search searches."""

    section: ClassVar[str] = "search"
    about: ClassVar[str] = "With what the web is searched (web_search)."

    provider: ProviderName | None = "auto"
    """searxng (one of your own), brave, tavily, ddgs (no key; needs the package ddgs), or
    anthropic: Claude's own search, with the key of `models.anthropic`, which charges for each
    search and its tokens. auto: anthropic where Claude answers anyway, or else no web_search; null:
    no web_search.
    """

    model: str | None = Field(None, min_length=1)
    """The Claude model that searches with anthropic; null: the model of runs."""

    base_url: str | None = Field(None, pattern=r"^https?://[^\s@?#]+$")
    """The address of SearXNG, which may be on a private network; of the others only for a proxy."""

    api_key: SecretStr | None = None
    """The key for brave or tavily."""

    @model_validator(mode="after")
    def _enough_is_known(self) -> Self:
        if self.provider == "searxng" and not self.base_url:
            raise ValueError("`search.provider: searxng` needs `search.base_url`")
        if self.provider in {"brave", "tavily"} and not plain_secret(self.api_key):
            raise ValueError(f"`search.provider: {self.provider}` needs `search.api_key`")
        return self

    @property
    def needs_claude(self) -> str:
        """The setting that needs a key for Claude; empty for none."""
        return "search.provider: anthropic" if self.provider == "anthropic" else ""
