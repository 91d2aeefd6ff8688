"""The declaration of a skill: its module holds `SKILL = SkillDeclaration(…)`."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bot.changes import ChangeStore
from bot.errors import ConfigError
from bot.values import Clock, ConversationMode, Place, Sections
from skills.base import Skill, Tool
from skills.services import SkillServices, Store

if TYPE_CHECKING:
    from bot.catalog.agents import Agents
    from bot.conversations.commands import ChatCommand
    from bot.events import EventBus
    from bot.models.anthropic import Claude
    from bot.platforms.base import Outlet
    from bot.subagents.manager import SubagentManager
    from bot.subagents.records import Records
    from bot.tasks import Tasks
    from db.changes import Restorer
    from db.database import Database
    from db.runs import Run

#: Returns the unreachable services whose tools some work needs, after waiting for them once per
#: process. The work is a run, or a turn of the main agent (`None`).
Unavailable = Callable[["Run | None"], Awaitable[tuple[str, ...]]]
#: Returns text for the prompt of a run, from the skills that its agent names and its tools.
RunGuide = Callable[[tuple[str, ...], tuple[str, ...]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BotServices(SkillServices):
    """The services of a running bot, for skills that come with it.

    Attributes:
        config: The sections of the configuration, by their class.
        tasks: Owns the background tasks.
        manager: Admits and stops runs.
        records: Finds and describes runs.
        agents: The agents that runs may be of.
        events: The bus on which announcements are published.
        claude: Returns the connection to Claude, for tools that Anthropic runs.
        outlets: Sends to and reads from the platforms that this process serves.
        stores: Returns the store of a skill.
        is_taken: Returns True if another tool or skill has a name.
        mode_at: Returns the mode of the conversations of a place.
        now: The bot's clock.
    """

    config: Sections
    database: "Database"
    tasks: "Tasks"
    manager: "SubagentManager"
    records: "Records"
    agents: "Agents"
    events: "EventBus"
    claude: "Callable[[], Claude]"
    outlets: "Mapping[str, Outlet]"
    stores: Callable[[str], Store]
    is_taken: Callable[[str], bool]
    mode_at: Callable[[Place], ConversationMode]
    now: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillParts:
    """Everything that a skill adds to a bot.

    Attributes:
        skills: Offered to the main agent, and to runs as far as its tools allow.
        run_tools: Tools that every run has and the main agent does not.
        restorers: Restore stored changes, for undo.
        changes: A store of changes that the skill keeps itself, for undo.
        periodic: Work that is done again and again; each call returns soon.
        unavailable: Returns the unreachable services of the skill.
        run_guide: Returns text for the prompts of runs.
        commands: Commands of users, which join the built-in ones in help, menus and parsing.
    """

    skills: tuple[Skill, ...] = ()
    run_tools: tuple[Tool, ...] = ()
    restorers: tuple["Restorer", ...] = ()
    changes: ChangeStore | None = None
    periodic: tuple[Callable[[], Awaitable[None]], ...] = ()
    unavailable: Unavailable | None = None
    run_guide: RunGuide | None = None
    commands: tuple["ChatCommand", ...] = ()

    @property
    def named(self) -> tuple[Skill, ...]:
        """The skills, and each tool of runs as a skill of its name: all names that are taken."""
        of_runs = (Skill(name=each.name, description="", tools=(each,)) for each in self.run_tools)
        return (*self.skills, *of_runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDeclaration:
    """Declares how a skill is made; it has either `build` or `open`.

    Attributes:
        build: Returns the skill or its parts; `None` if the configuration leaves nothing of it.
        open: As `build`, for a skill with resources, which the stack closes.
        last: Whether the skill is opened after the others, since it needs their names.
    """

    build: Callable[[BotServices], Skill | SkillParts | None] | None = None
    open: Callable[[AsyncExitStack, BotServices], Awaitable[SkillParts]] | None = None
    last: bool = False


def live_skills(
    owners: Mapping[str, object], *, prefix: str, description: str, guide: str
) -> tuple[Skill, ...]:
    """Return a skill for each server or service, by its name; its `tools` come and go."""
    return tuple(
        Skill(
            name=f"{prefix}__{name}",
            description=description.format(name),
            # Once only: the guides of all skills are in one prompt.
            guide=guide if number == 0 else "",
            live=partial(getattr, owner, "tools"),
        )
        for number, (name, owner) in enumerate(owners.items())
    )


def as_parts(built: object) -> SkillParts:
    """Return the parts of a skill that was built.

    Raises:
        ConfigError: It is no skill.
    """
    if isinstance(built, SkillParts):
        return built
    if isinstance(built, Skill):
        return SkillParts(skills=(built,))
    raise ConfigError(
        f"`build` must return a skills.base.Skill, and returned {type(built).__name__}."
    )
