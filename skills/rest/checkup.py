"""Checks the REST services: reads their documents, and makes no other request."""

import asyncio

from bot.agent.sanitizer import one_line
from bot.checks import Check, fails, is_off, reason_of, works
from bot.errors import BotError
from skills.rest.documents import read_file
from skills.rest.services import GRACE, OpenClient, RestService, described_by
from skills.rest.settings import RestServiceSettings, RestSettings

MOST_CHARACTERS = 600


async def look(settings: RestSettings, open_client: OpenClient) -> list[Check]:
    """Read all documents concurrently, each within the timeout of a call."""
    async with asyncio.TaskGroup() as group:
        looks = [
            group.create_task(_look(RestService(name, each, open_client)))
            for name, each in settings.services.items()
        ]
    return [look.result() for look in looks]


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
    text = f"{name}: {_count(len(service.tools))}"
    if service.problem:
        return is_off(one_line(f"{text}; {service.problem}", MOST_CHARACTERS))
    if settings.document is None:
        return is_off(f"{text}, written down by hand; none was made to try it.")
    return works(f"{text}; its document was read.")


def known(name: str, settings: RestServiceSettings) -> str:
    """Return a description of a service without a network request."""
    source = settings.document
    if source is None:
        return f"{_count(len(settings.requests))} to {settings.base}"
    if source.startswith(("http://", "https://")):
        return "as its document at another place says: `python -m bot doctor` reads it"
    try:
        described = described_by(name, settings, read_file(source))
    except OSError as error:
        return f"NOT USED: {source} cannot be read ({error.strerror})"
    except BotError as error:
        return f"NOT USED: {error}"
    names = {each.name for each in described.operations}
    text = f"{_count(len(names) + len(settings.requests))} to {described.base}"
    return one_line("; ".join([text, *described.problems]), MOST_CHARACTERS)


def _count(number: int) -> str:
    return "1 request" if number == 1 else f"{number} requests"
