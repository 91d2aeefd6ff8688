"""Loads skills that do not come with the bot: from folders and from installed packages.

A broken skill is reported and left out. The code of skills runs with the rights of the bot.
"""

import asyncio
import importlib
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bot.agent.sanitizer import escape_once, one_line
from bot.errors import BotError, ConfigError
from bot.net.settings import FetchSettings
from bot.values import Json
from skills.base import Skill, Tool, ToolContext, ToolError
from skills.declaration import BotServices, SkillParts
from skills.loading_dangers import dangers
from skills.loading_files import Built, built, built_from
from skills.services import MemoryStore, SkillServices
from skills.settings import OwnSkillsSettings
from skills.shapes import check_confirmations, check_shape, in_the_way

if TYPE_CHECKING:
    from db.runs import Run

log = logging.getLogger(__name__)

#: The group of entry points: `weather = "my_package.weather:SKILL"`.
GROUP = "retinue.skills"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

#: Longest part of a result that a model is given, in characters.
MOST_CHARACTERS = 200_000

Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Outside:
    """A skill that does not come with the bot.

    Attributes:
        origin: The file or entry point, for messages.
        opening: Opens the parts of a skill with resources; `None` if they are there.
    """

    origin: str
    parts: SkillParts
    opening: Callable[[AsyncExitStack], Awaitable[SkillParts]] | None = None

    @property
    def skill(self) -> Skill:
        """Its first skill."""
        return self.parts.skills[0]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of loading.

    Attributes:
        problems: Skills that were left out, with the reason, and dangers, a sentence each.
    """

    skills: tuple[Outside, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible skill.

    Attributes:
        make: Imports and builds the skill.
    """

    name: str
    origin: str
    make: Callable[[SkillServices], Built]


def load(settings: OwnSkillsSettings, services: SkillServices | FetchSettings) -> Loaded:
    """Import every additional skill of the configuration, and build those without resources.

    Args:
        settings: The configured skills.
        services: The services of a running bot; without a bot the limits on reading from the
            network.

    Raises:
        ConfigError: A tool needs a confirmation and could be called by a subagent.
    """
    # Python caches the listing of a folder, and may miss new files there.
    importlib.invalidate_caches()
    if isinstance(services, FetchSettings):
        services = SkillServices(name="", settings={}, folder=Path(), limits=services)
    problems = list(dangers(settings.folders))
    candidates = [*_in_folders(settings.folders, problems)]
    if settings.entry_points:
        candidates += _in_packages()
    problems += _unknown(settings, {candidate.name for candidate in candidates})
    found: list[Outside] = []
    owners: dict[str, str] = {}
    for candidate in candidates:
        if candidate.name in settings.disabled:
            continue
        try:
            _check_name(candidate, owners)
            store = (
                services.stores(candidate.name)
                if isinstance(services, BotServices)
                else MemoryStore()
            )
            made = candidate.make(
                # Not those of `BotServices`, and no other skill's store.
                SkillServices(
                    name=candidate.name,
                    settings=dict(settings.settings.get(candidate.name, {})),
                    folder=Path(settings.data_folder) / candidate.name,
                    limits=services.limits,
                    reserve=services.reserve,
                    store=store,
                )
            )
            if isinstance(made, SkillParts):
                outside = Outside(candidate.origin, _guarded(made, candidate.origin))
            else:
                outside = Outside(candidate.origin, SkillParts(), made)
        except (Exception, SystemExit) as error:
            log.info("%s is left out", candidate.origin, exc_info=error)
            problems.append(f"{candidate.origin} is left out: {_told(error)}")
            continue
        owners[candidate.name] = candidate.origin
        found.append(outside)
    for each in found:
        for skill in each.parts.skills:
            check_confirmations(skill, each.origin)
    return Loaded(tuple(found), tuple(problems))


async def open_outside(each: Outside, stack: AsyncExitStack, others: Iterable[Skill]) -> Loaded:
    """Open a skill, if it has resources; a broken one, or one whose names collide, is left out."""
    if each.opening is None:
        return Loaded((each,))
    try:
        parts = _guarded(await each.opening(stack), each.origin)
    except Exception as error:
        log.info("%s is left out", each.origin, exc_info=error)
        return Loaded(problems=(f"{each.origin} is left out: {_told(error)}",))
    return fitting(Loaded((Outside(each.origin, parts),)), others)


def fitting(loaded: Loaded, others: Iterable[Skill]) -> Loaded:
    """Return the loaded skills, without those whose names collide with these or earlier ones."""
    skills, problems = list(others), list(loaded.problems)
    kept: list[Outside] = []
    for each in loaded.skills:
        mine = each.parts.named
        whys = [why for skill in mine if (why := in_the_way(skill, skills))]
        if whys:
            problems.append(f"{each.origin} is left out: {whys[0]}")
        else:
            kept.append(each)
            skills += mine
    return Loaded(tuple(kept), tuple(problems))


# -- candidates ------------------------------------------------------------------------------------


def _in_folders(folders: Iterable[str], problems: list[str]) -> Iterator[_Candidate]:
    for name in folders:
        folder = Path(name).expanduser().absolute()
        try:
            paths = sorted(folder.iterdir())
        except OSError as error:
            problems.append(f"The folder {name} of skills cannot be read: {error.strerror}.")
            continue
        for path in paths:
            if path.name.startswith(("_", ".")):
                continue
            if (path.suffix == ".py" and path.is_file()) or (path / "__init__.py").is_file():
                yield _Candidate(path.stem, str(path), partial(built_from, path))


def _in_packages() -> Iterator[_Candidate]:
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        package = point.dist.name if point.dist else "an unknown package"

        def make(services: SkillServices, load: Callable[[], object] = point.load) -> Built:
            return built(load(), services)

        yield _Candidate(point.name, f"The skill {point.name} of {package}", make)


def _unknown(settings: OwnSkillsSettings, names: set[str]) -> Iterator[str]:
    for key, named in (("disabled", settings.disabled), ("settings", settings.settings)):
        for name in named:
            if name not in names:
                yield f"`skills.{key}` names {one_line(name)}, and there is no such skill."


# -- one skill -------------------------------------------------------------------------------------


def _check_name(candidate: _Candidate, owners: dict[str, str]) -> None:
    if not _NAME.fullmatch(candidate.name):
        raise ConfigError("a name has up to 64 of A-Z, a-z, 0-9, _ and -; rename it.")
    if other := owners.get(candidate.name):
        raise ConfigError(f"{other} has the same name; rename one of them.")


def _told(error: BaseException) -> str:
    """Return the error and its location, for the author of the skill."""
    if isinstance(error, BotError):
        return one_line(str(error), 300)
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    where = f" ({Path(last.filename).name}, line {last.lineno})" if last else ""
    return one_line(f"{type(error).__name__}: {error}", 300).rstrip(".") + f"{where}."


def _guarded(parts: SkillParts, origin: str) -> SkillParts:
    """Return parts whose form is right, and which cannot stop the bot when they fail.

    Raises:
        ConfigError: The form of a skill is wrong.
    """
    for skill in parts.named:
        check_shape(skill)
    guide, unavailable = parts.run_guide, parts.unavailable

    async def reachable(run: "Run | None") -> tuple[str, ...]:
        assert unavailable is not None, "It is replaced only if there is one."
        try:
            return await unavailable(run)
        except Exception:
            log.exception("%s failed when it was asked for unavailable services", origin)
            return ()

    return replace(
        parts,
        skills=tuple(_guarded_skill(skill, origin) for skill in parts.skills),
        run_tools=tuple(map(_escaping, parts.run_tools)),
        run_guide=guide and (lambda *names: _asked(partial(guide, *names), "", origin)),
        unavailable=unavailable and reachable,
    )


def _guarded_skill(skill: Skill, origin: str) -> Skill:
    live, guide = skill.live, skill.guide
    return replace(
        skill,
        tools=tuple(map(_escaping, skill.tools)),
        live=live and (lambda: tuple(map(_escaping, _asked(live, tuple[Tool, ...](), origin)))),
        guide=guide if isinstance(guide, str) else partial(_asked, guide, "", origin),
    )


def _escaping(tool: Tool) -> Tool:
    """Return a tool whose results and errors are escaped, so that none poses as the bot's words."""

    async def run(context: ToolContext, given: Json) -> str:
        try:
            text = await tool.run(context, given)
        except ToolError as error:
            raise ToolError(escape_once(str(error), limit=MOST_CHARACTERS)) from error
        if not isinstance(text, str):
            return text
        return await asyncio.to_thread(escape_once, text, limit=MOST_CHARACTERS)

    def check(given: Json) -> None:
        try:
            if tool.check is not None:
                tool.check(given)
        except ToolError as error:
            raise ToolError(escape_once(str(error), limit=MOST_CHARACTERS)) from error

    return replace(tool, run=run, check=check)


def _asked(give: Callable[[], Given], otherwise: Given, origin: str) -> Given:
    try:
        return give()
    except Exception:
        log.exception("%s failed when it was asked for its tools or its guide", origin)
        return otherwise
