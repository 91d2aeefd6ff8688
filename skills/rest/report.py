"""Reports for `check` the REST services, without a network request."""

from collections.abc import Iterator, Mapping

from bot.agent.sanitizer import one_line
from bot.errors import BotError
from bot.run_texts import counted
from bot.values import Sections
from skills.rest.documents import described_by, is_remote, read_file
from skills.rest.omissions import problem_of
from skills.rest.settings import RestServiceSettings, RestSettings

TITLE = "REST services"

MOST_CHARACTERS = 1_500


def lines(config: Sections, _: Mapping[str, str]) -> Iterator[str]:
    """Yield each service."""
    settings = config.section(RestSettings)
    if not settings.services:
        yield "none: `rest.services` names them"
    for name, each in settings.services.items():
        yield f"{name}: {known(name, each) if each.enabled else 'off, `enabled` is false'}"


def known(name: str, settings: RestServiceSettings) -> str:
    """Return a description of a service without a network request."""
    source = settings.document
    if source is None:
        return f"{counted(len(settings.requests), 'request')} to {settings.base}"
    if is_remote(source):
        return "as its document at another place says: `python -m bot doctor` reads it"
    try:
        base, document = described_by(name, settings, read_file(source))
    except OSError as error:
        return f"NOT USED: {source} cannot be read ({error.strerror})"
    except BotError as error:
        return f"NOT USED: {error}"
    names = {each.name for each in document.operations}
    text = f"{counted(len(names) + len(settings.requests), 'request')} to {base}"
    if problem := problem_of(document):
        text = f"{text}; {problem}. All operations: `python -m bot rest list {name}`"
    return one_line(text, MOST_CHARACTERS)
