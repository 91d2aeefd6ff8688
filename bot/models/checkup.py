"""Checks that the providers accept their keys and have the configured models.

Each check requests the description of a model, which costs no tokens.
"""

import asyncio
from urllib.parse import quote

import aiohttp

from bot.agent.sanitizer import one_line
from bot.checks import Check, fails, is_off, works
from bot.models.anthropic_clouds import BedrockSettings, VertexSettings, lacks
from bot.models.catalog import ModelChoice, ModelSettings

PATIENCE_SECONDS = 10.0
#: Most bytes read of a response: descriptions are short, but a gateway's HTML page may be long.
MOST_BYTES = 100_000
#: The providers' error codes for an unknown model.
_NO_MODEL = frozenset({"not_found_error", "model_not_found"})


async def look(settings: ModelSettings) -> list[Check]:
    """Return a remark about each allowed model; the models are checked concurrently."""
    if settings.chosen == "offline":
        return [is_off("the offline demo answers: no key is set.")]
    timeout = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
        asyncio.TaskGroup() as group,
    ):
        looks = [group.create_task(_look(session, settings, choice)) for choice in settings.choices]
    return [each.result() for each in looks]


async def _look(
    session: aiohttp.ClientSession, settings: ModelSettings, choice: ModelChoice
) -> Check:
    section = settings.providers[choice.provider]
    if isinstance(section, BedrockSettings | VertexSettings) and (sentence := lacks(section)):
        return fails(f"{choice}: {sentence}")
    base, headers = section.endpoint
    if not base:
        return is_off(
            f"{choice}: only a request can tell: `python -m bot doctor --online` asks it."
        )
    address = f"{base}/models/{quote(choice.model, safe='')}"
    reason = ""
    try:
        async with session.get(address, headers=headers) as response:
            status, body = response.status, await response.content.read(MOST_BYTES)
    except TimeoutError:
        reason = f"no answer within {PATIENCE_SECONDS:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        reason = one_line(str(error) or type(error).__name__, 300)
    if reason:
        return fails(f"{choice}: {base} cannot be reached: {reason}.")
    if status == 200:
        return works(f"{choice}: its provider has it, and takes the key.")
    setting = settings.setting(choice.provider)
    if status in {401, 403}:
        return fails(f"{choice}: its provider refuses the key: check `{setting}.api_key`.")
    if status == 404 and any(f'"{word}"' in body.decode(errors="replace") for word in _NO_MODEL):
        return fails(
            f"{choice}: its provider has no such model. Check the names under `{setting}` and in "
            "`models.allowed`."
        )
    # Servers compatible with OpenAI may lack the endpoint that describes a model.
    return is_off(
        f"{choice}: {base} does not say whether it has this model (status {status}); "
        "`python -m bot doctor --online` asks it a request."
    )
