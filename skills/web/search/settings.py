"""Settings of web search (`search:`)."""

from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from bot.values import Settings

ProviderName = Literal["auto", "anthropic", "searxng", "brave", "tavily", "ddgs"]


class SearchSettings(Settings):
    """Everything under `search:`: with what the tool web_search searches."""

    provider: ProviderName | None = Field(
        "auto",
        description="searxng (one of your own), brave, tavily, ddgs (no key; needs the package "
        "ddgs), or anthropic: Claude's own search, with the key of `models.anthropic`, which "
        "charges for each search and its tokens. auto: anthropic where Claude answers anyway, or "
        "else no web_search; null: no web_search.",
    )
    model: str | None = Field(
        None,
        min_length=1,
        description="The Claude model that searches with anthropic; null: the model of runs.",
    )
    base_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s@?#]+$",
        description="Where the SearXNG is, which may be on a private network; of the others only "
        "for a proxy.",
    )
    api_key: SecretStr | None = Field(None, description="The key for brave or tavily.")

    @model_validator(mode="after")
    def _enough_is_known(self) -> Self:
        if self.provider == "searxng" and not self.base_url:
            raise ValueError("`search.provider: searxng` needs `search.base_url`")
        key = self.api_key.get_secret_value().strip() if self.api_key else ""
        if self.provider in {"brave", "tavily"} and not key:
            raise ValueError(f"`search.provider: {self.provider}` needs `search.api_key`")
        return self
