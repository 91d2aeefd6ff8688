"""Checks that the providers accept their keys and have the configured models.

Each check requests the description of a model, which costs no tokens.
"""

import asyncio
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp

from bot.agent.sanitizer import one_line
from bot.checks import Check, fails, is_off, works
from bot.models.catalog import ModelChoice, ModelSettings

PATIENCE_SECONDS = 10.0
#: Most bytes read of a response: descriptions are short, but a gateway's HTML page may be long.
MOST_BYTES = 100_000
#: The providers' error codes for an unknown model.
_NO_MODEL = frozenset({"not_found_error", "model_not_found"})


@dataclass(frozen=True, slots=True)
class _Provider:
    setting: str
    address: str
    headers: dict[str, str]


async def look(settings: ModelSettings) -> list[Check]:
    """Return a remark about each allowed model; the models are checked concurrently."""
    if settings.chosen == "offline":
        return [is_off("the offline demo answers: no key is set.")]
    timeout = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
        asyncio.TaskGroup() as group,
    ):
        looks = [
            group.create_task(_look(session, _provider(settings, choice), choice))
            for choice in settings.choices
            if choice.provider != "offline"
        ]
    return [each.result() for each in looks]


def _provider(settings: ModelSettings, choice: ModelChoice) -> _Provider:
    if choice.provider == "anthropic":
        claude = settings.anthropic
        key = claude.api_key.get_secret_value().strip() if claude.api_key else ""
        base = (claude.base_url or "https://api.anthropic.com").rstrip("/")
        headers = {"Authorization": f"Bearer {key}", "anthropic-version": "2023-06-01"}
        return _Provider("models.anthropic", f"{base}/v1", headers)
    base = (settings.openai.base_url or "https://api.openai.com/v1").rstrip("/")
    headers = {"Authorization": f"Bearer {settings.openai.key or 'none'}"}
    return _Provider("models.openai", base, headers)


async def _look(session: aiohttp.ClientSession, provider: _Provider, choice: ModelChoice) -> Check:
    address = f"{provider.address}/models/{quote(choice.model, safe='')}"
    try:
        async with session.get(address, headers=provider.headers) as response:
            body = await response.content.read(MOST_BYTES)
    except TimeoutError:
        return _unreachable(provider, choice, f"no answer within {PATIENCE_SECONDS:g} s")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return _unreachable(provider, choice, str(error) or type(error).__name__)
    return _told(provider, choice, response.status, body.decode(errors="replace"))


def _told(provider: _Provider, choice: ModelChoice, status: int, body: str) -> Check:
    if status == 200:
        return works(f"{choice}: its provider has it, and takes the key.")
    if status in {401, 403}:
        text = f"{choice}: its provider refuses the key: check `{provider.setting}.api_key`."
        return fails(text)
    if status == 404 and any(f'"{word}"' in body for word in _NO_MODEL):
        text = (
            f"{choice}: its provider has no such model. Check the names under "
            f"`{provider.setting}` and in `models.allowed`."
        )
        return fails(text)
    # Servers compatible with OpenAI may lack the endpoint that describes a model.
    text = (
        f"{choice}: {provider.address} does not say whether it has this model (status {status}); "
        "`python -m bot doctor --online` asks it a question."
    )
    return is_off(text)


def _unreachable(provider: _Provider, choice: ModelChoice, reason: str) -> Check:
    text = f"{choice}: {provider.address} cannot be reached: {one_line(reason, 300)}."
    return fails(text)
