"""Checks the REST services: reads their documents, and makes no other request."""

from bot.agent.sanitizer import one_line
from bot.checks import Check, all_of, fails, is_off, reason_of, works
from bot.errors import BadRequestError, BotError
from bot.net.guard import open_guarded
from bot.run_texts import counted
from bot.values import Sections
from skills.rest.omissions import lines_of
from skills.rest.report import MOST_CHARACTERS
from skills.rest.services import RestDependencies, RestService
from skills.rest.settings import RestSettings
from skills.rest.uploads import UploadReader

SUBJECT = "REST"


async def checks(config: Sections) -> list[Check]:
    """Read the documents of all services."""
    # Shared, since documents are read one after another.
    shared = _dependencies()
    return await all_of(
        _look(RestService(name, each, shared))
        for name, each in config.section(RestSettings).services.items()
    )


async def listed(config: Sections, name: str, word: str = "") -> str:
    """Return the operations of a service, a line each; those that are left out with the reason.

    Raises:
        BotError: There is no such service, or its document cannot be read.
    """
    services = config.section(RestSettings).services
    if name not in services:
        known = ", ".join(services) or "none"
        raise BadRequestError(
            f"There is no REST service {one_line(name, 60)!r}. There are: {known}."
        )
    service = RestService(name, services[name], _dependencies())
    # The list itself says what the log would.
    await service.load(quiet=True)
    lines = [] if service.document is None else list(lines_of(service.document, word))
    lines += [
        f"{each}: written down by hand"
        for each in services[name].requests
        if word.lower() in each.lower()
    ]
    return "\n".join([*lines, *([service.problem] if service.problem else [])]) or "none"


def _dependencies() -> RestDependencies:
    return RestDependencies(open_client=open_guarded, files=UploadReader(None))


async def _look(service: RestService) -> Check:
    name, settings = service.name, service.settings
    if not settings.enabled:
        return is_off(f"{name} is off: `rest.services.{name}.enabled` is false.")
    try:
        await service.load(quiet=True)
    except BotError as error:
        reason = one_line(reason_of(error), MOST_CHARACTERS)
        text = f"{name} cannot be used: {reason}. Check `rest.services.{name}`."
        return fails(text)
    text = f"{name}: {counted(len(service.tools), 'request')}"
    if service.problem:
        hint = f" All operations: `python -m bot rest list {name}`"
        return is_off(one_line(f"{text}; {service.problem}.", MOST_CHARACTERS) + hint)
    if settings.document is None:
        return is_off(f"{text}, written down by hand; none was made to try it.")
    return works(f"{text}; its document was read.")
