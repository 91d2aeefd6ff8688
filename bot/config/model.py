"""Everything that `config.yaml` may set: the core's sections, and those of the skills."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self, runtime_checkable

from pydantic import Field, SecretStr, create_model, model_validator

from bot.agent.permissions import PermissionSettings
from bot.agent.settings import AgentSettings, AgentSkillsSettings, AgentsSettings
from bot.conversations.access import AccessSettings
from bot.conversations.files import FileSettings
from bot.conversations.settings import AuditSettings, CatchUpSettings, ConversationSettings
from bot.disk import DiskSettings
from bot.models.catalog import ModelSettings
from bot.monitoring.settings import MonitoringSettings
from bot.net.settings import FetchSettings
from bot.platforms.catalog import PLATFORMS
from bot.rights.settings import RolesSettings
from bot.spending.settings import SpendingSettings
from bot.subagents.limits import SubagentSettings
from bot.subagents.retention import RetentionSettings
from bot.values import Live, Section, Settings, SkillSettings
from db.settings import DatabaseSettings
from skills import discovery
from skills.settings import OwnSkillsSettings


@runtime_checkable
class NamesPrograms(Protocol):
    """A section whose files name programs: no run may be able to write them."""

    section: ClassVar[str]

    @property
    def trusted_files(self) -> tuple[Path, ...]:
        """The files."""


class LoggingSettings(Settings):
    """Everything under `logging:`."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged: debug, info, warning or error."""

    form: Literal["text", "json"] = "text"
    """Lines to read (text), or one JSON object a line (json)."""

    file: str | None = None
    """The file for the lines; null for standard error."""


class CoreConfig(Settings):
    """The sections of `config.yaml` that belong to no skill, with their defaults."""

    at_start: ClassVar[tuple[str, ...]] = ("database", "logging", "monitoring", "skills")

    agent: AgentSettings = AgentSettings()
    """The main agent, and what every agent shares."""

    models: ModelSettings = ModelSettings()
    """The language models."""

    subagents: SubagentSettings = SubagentSettings()
    """The limits of runs, one user's and everyone's."""

    agents: AgentsSettings = AgentsSettings()
    """Subagents as Markdown files: docs/agents.md."""

    permissions: PermissionSettings = PermissionSettings()
    """The rules for calls of tools, with and without asking: docs/agents.md."""

    agent_skills: AgentSkillsSettings = AgentSkillsSettings()
    """Agent Skills (SKILL.md): instructions for certain kinds of work."""

    skills: OwnSkillsSettings = OwnSkillsSettings()
    """Further skills in Python: docs/skills.md."""

    spending: SpendingSettings = SpendingSettings()
    """The most that model calls may use and cost: docs/administration.md."""

    access: AccessSettings = AccessSettings()
    """The users who may talk to the bot, and its admins."""

    roles: RolesSettings = RolesSettings()
    """The rights of everyone, of places and of roles: docs/administration.md."""

    conversations: ConversationSettings = ConversationSettings()
    """The conversations in threads and channels: docs/threads.md."""

    catch_up: CatchUpSettings = CatchUpSettings()
    """The messages that were sent while the bot was not listening."""

    files: FileSettings = FileSettings()
    """Files that people attach: texts and images."""

    disk: DiskSettings = DiskSettings()
    """The space that is kept free on the disks."""

    fetch: FetchSettings = FetchSettings()
    """Web pages that the models ask for (web_fetch)."""

    database: DatabaseSettings = DatabaseSettings()
    """The database for everything that is stored."""

    retention: RetentionSettings = RetentionSettings()
    """The times for which things are kept."""

    audit: AuditSettings = AuditSettings()
    """The record of what was done, by whom and to whose work: docs/administration.md."""

    logging: LoggingSettings = LoggingSettings()
    """The bot's log."""

    monitoring: MonitoringSettings = MonitoringSettings()
    """Health checks and metrics of each process: docs/operations.md."""

    def section(self, kind: type[Section]) -> Section:
        """Return the section of this class.

        Raises:
            LookupError: The class is no section; the text says how a skill's class becomes one.
        """
        for name in type(self).model_fields:
            if type(section := getattr(self, name)) is kind:
                return section
        raise LookupError(
            f"{kind.__name__} is no section of the configuration: declare `section` and `about` in "
            "it, in the module `settings` of the skill."
        )

    @property
    def data_folder(self) -> Path:
        """The folder of the bot's own files, in which the skills have theirs."""
        return Path(self.skills.data_folder).parent

    def live(self, kind: type[Section]) -> Live[Section]:
        """Return a function that returns the section of this class."""
        return lambda: self.section(kind)

    @property
    def of_skills(self) -> list[SkillSettings]:
        """The sections that belong to skills."""
        return [self.section(kind) for kind in discovery.sections()]

    @model_validator(mode="after")
    def _has_claude(self) -> Self:
        for need in [each.needs_claude for each in self.of_skills if each.needs_claude]:
            if not self.models.anthropic.configured:
                raise ValueError(f"`{need}` needs `models.anthropic.api_key`")
        return self

    @model_validator(mode="after")
    def _has_no_program_files_of_runs(self) -> Self:
        folders = [
            (each.section, folder.expanduser().resolve())
            for each in self.of_skills
            for folder in each.folders
        ]
        for section in self.of_skills:
            for file in section.trusted_files if isinstance(section, NamesPrograms) else ():
                for owner, folder in folders:
                    # Both as they are named and with links followed: a run could replace a link.
                    named = file.expanduser()
                    if any(
                        each.is_relative_to(folder) for each in (named.absolute(), named.resolve())
                    ):
                        raise ValueError(
                            f"`{section.section}.files`: {file} is below `{owner}.folder`, where "
                            "runs write files, and it names programs that the bot starts; move it "
                            "to the folder of the configuration"
                        )
        return self

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders with files of users, and that of the database."""
        folders = [folder for each in self.of_skills for folder in each.folders]
        return (*folders, *self.database.folders)

    @property
    def secrets(self) -> frozenset[str]:
        """All values that must never be shown."""
        return frozenset(_secrets(self))


if TYPE_CHECKING:

    class Config(CoreConfig):
        """Everything that `config.yaml` may set, with its defaults."""

        def __init__(self, **sections: Settings) -> None: ...

else:
    Config = create_model(
        "Config",
        __base__=CoreConfig,
        __module__=__name__,
        __doc__="Everything that `config.yaml` may set, with its defaults.",
        **{
            kind.section: (kind, Field(kind(), description=kind.about))
            for kind in (*PLATFORMS, *discovery.sections())
        },
    )


def _secrets(value: object) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, DatabaseSettings):
        yield from value.passwords
    elif isinstance(value, OwnSkillsSettings):
        yield from value.secrets
    elif isinstance(value, Settings):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name))
    elif isinstance(value, dict):
        for part in value.values():
            yield from _secrets(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _secrets(part)
