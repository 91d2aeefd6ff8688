"""Settings of web pages (`fetch:`)."""

from ipaddress import ip_network
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from bot.net.addresses import Network
from bot.values import Settings

_Network = Annotated[Network, BeforeValidator(ip_network), WithJsonSchema({"type": "string"})]


class FetchSettings(Settings):
    """Everything under `fetch:`: web pages that a model asks for."""

    enabled: bool = True
    """Whether there is a tool web_fetch."""

    seconds: float = Field(20.0, ge=1, le=120)
    """The most that one page may take, redirects included."""

    megabytes: float = Field(2.0, ge=0.1, le=20)
    """The part of a page that is read, as it comes over the wire."""

    redirects: int = Field(5, ge=0, le=10)
    """The redirects that are followed at most."""

    refused_networks: tuple[_Network, ...] = ()
    """Networks that are never spoken to, beside those that are not public anyway: say, public
    addresses of your own whose services trust this machine.
    """

    user_agent: str = Field(
        "Mozilla/5.0 (compatible; Retinue; reads pages that people ask for)",
        min_length=1,
        max_length=200,
        pattern=r"^[\x20-\x7e]+$",
    )
    """The name that the bot gives to web servers."""
