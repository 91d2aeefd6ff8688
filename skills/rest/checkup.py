"""Checks the REST services: reads their documents, and makes no other request."""

import asyncio

from bot.agent.sanitizer import one_line
from bot.checks import Check, all_of, fails, is_off, reason_of, works
from bot.errors import BotError
from bot.net.addresses import AnyAddress
from bot.net.guard import open_guarded
from bot.run_texts import counted
from bot.values import Sections
from skills.rest.report import MOST_CHARACTERS
from skills.rest.services import GRACE, RestService
from skills.rest.settings import RestSettings

SUBJECT = "REST"


async def checks(config: Sections) -> list[Check]:
    """Read the documents of all services concurrently, each within the timeout of a call."""
    return await all_of(
        _look(RestService(name, each, lambda: open_guarded(AnyAddress())))
        for name, each in config.section(RestSettings).services.items()
    )


async def _look(service: RestService) -> Check:
    name, settings = service.name, service.settings
    if not settings.enabled:
        return is_off(f"{name} is off: `rest.services.{name}.enabled` is false.")
    try:
        async with asyncio.timeout(settings.timeout_seconds + GRACE):
            await service.load()
    except BotError as error:
        reason = one_line(reason_of(error), MOST_CHARACTERS)
        text = f"{name} cannot be used: {reason}. Check `rest.services.{name}`."
        return fails(text)
    except TimeoutError:
        return fails(f"{name}: its document takes too long to read.")
    text = f"{name}: {counted(len(service.tools), 'request')}"
    if service.problem:
        return is_off(one_line(f"{text}; {service.problem}", MOST_CHARACTERS))
    if settings.document is None:
        return is_off(f"{text}, written down by hand; none was made to try it.")
    return works(f"{text}; its document was read.")
