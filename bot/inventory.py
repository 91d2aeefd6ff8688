"""Lists the agents and skills of a configuration without opening a bot."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bot import prompt_tokens
from bot.agent.permissions import read_rules
from bot.catalog.agents import AGENTS, AgentCatalog, AgentDefinition, as_tools, tool_name
from bot.catalog.files import FileCatalog, listed_shortly
from bot.catalog.skills import AgentSkill, SkillCatalog
from bot.config.model import Config
from bot.errors import BadRequestError
from bot.rights.names import known_names, levels_of, unknown_names, unknown_role
from bot.run_texts import counted
from skills import discovery
from skills.base import Skill
from skills.loading import fitting, load
from skills.loading_dangers import dangers
from skills.registry import SkillRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Agents and skills by name, and their problems.

    Attributes:
        loaded: For each configured folder of agents and of Agent Skills, a sentence about how many
            files were loaded.
        skills: The skills that do not come with the bot.
        prompt: The tokens that each request of the main agent carries, in a sentence.
        problems: Broken or unused parts, a sentence each; none prevents the bot from starting.
    """

    agents: tuple[str, ...]
    loaded: tuple[tuple[str, ...], tuple[str, ...]]
    agent_skills: tuple[str, ...]
    skills: tuple[str, ...]
    prompt: str
    problems: tuple[str, ...]

    @property
    def lines(self) -> dict[str, list[str]]:
        """The lines of a report, by their title."""
        return {
            "Agents": [", ".join(self.agents), *self.loaded[0]],
            "Agent Skills": [
                ", ".join(self.agent_skills) or "none: see `agent_skills.folders`",
                *self.loaded[1],
            ],
            "Skills": [", ".join(self.skills) or "those that come with the bot"],
            "Prompt": [self.prompt],
        }


def take(config: Config) -> Inventory:
    """Examine all agents and skills that do not come with the bot; runs the code of skills.

    Raises:
        ConfigError: The bot would not start with these skills or calendars.
    """
    for section in config.of_skills:
        section.check_installed()
    agents = AgentCatalog.of_settings(config.agents)
    folders = SkillCatalog([Path(folder) for folder in config.agent_skills.folders])
    # Every bot has these names.
    names = discovery.names()
    own_tools, not_tools = as_tools(agents, names.__contains__)
    # A placeholder for each tool and skill that a bot would have.
    others = [
        Skill(name=name, description="") for name in sorted(names | set(map(tool_name, own_tools)))
    ]
    others += [
        Skill(name=name, description="", live=tuple)
        for section in config.of_skills
        for name in section.live_skills
    ]
    loaded = fitting(load(config.skills, config.fetch), others)
    skills = [skill for each in loaded.skills for skill in each.parts.skills]
    known = SkillRegistry([*others, *skills]).has
    agents.check_tools(known)
    # A role would have less than it seems if a name below `roles:` denoted nothing.
    choices = (*config.models.choices, *config.models.fallback_choices)
    models = [(each.provider, each.model) for each in choices]
    there = known_names(models, agents.by_name, folders.by_name, names)
    return Inventory(
        agents=tuple(agents.by_name),
        loaded=(tuple(_counts(agents)), tuple(_counts(folders))),
        agent_skills=tuple(folders.by_name),
        skills=tuple(skill.name for skill in skills),
        prompt=prompt_tokens.described_in(config, agents, own_tools, skills),
        problems=(
            *agents.problems,
            *folders.problems,
            *not_tools,
            *_unsafe(config),
            *_unknown_names(config, agents, folders, known),
            *unknown_names(config.roles, there, known),
            *loaded.problems,
        ),
    )


def _counts(catalog: FileCatalog[AgentDefinition] | FileCatalog[AgentSkill]) -> Iterator[str]:
    """Yield a sentence for each configured folder; the built-in agents need none."""
    for folder, count in catalog.counts.items():
        if folder != AGENTS and folder.is_dir():
            yield f"{folder}: {count.loaded:,} of {counted(count.files, 'file')} loaded"


def _unsafe(config: Config) -> Iterator[str]:
    """Report folders with agent instructions that other accounts or the agents could write to."""
    folders = (*config.agents.folders, *config.agent_skills.folders)
    why = "what is in it tells agents what to do"
    yield from dangers(folders, kinds=frozenset({".md"}), why=why)
    of_users = [
        (section.section, folder.expanduser().absolute())
        for section in config.of_skills
        for folder in section.folders
    ]
    for name in (*folders, *config.skills.folders):
        folder = Path(name).expanduser().absolute()
        for section, files in of_users:
            if folder.is_relative_to(files) or files.is_relative_to(folder):
                yield (
                    f"{name} and `{section}.folder` overlap: agents could change other agents' "
                    "instructions. Use separate folders."
                )


def _unknown_names(
    config: Config, agents: AgentCatalog, folders: SkillCatalog, known: Callable[[str], bool]
) -> Iterator[str]:
    """Report skills and models that agents cannot use, and rules that match no tool.

    The authors of the rules rely on them.
    """
    unmatched: dict[tuple[str, str], list[str]] = {}
    lists = {
        "permissions.rules": config.permissions.permissions.configured,
        **{
            f"{key}.permissions": read_rules(level.permissions)
            for key, level in levels_of(config.roles).items()
        },
    }
    for agent in agents.by_name.values():
        owner = f"The agent {agent.name}"
        lists[owner] = agent.permissions
        for name in folders.bodies(agent.skills)[1]:
            yield f"{owner} names the skill `{name}`, which is not there."
        try:
            choice, as_named = config.models.of_agent(agent.provider, agent.model)
        except BadRequestError as error:
            yield f"{owner} cannot run: {error}"
            continue
        if not as_named:
            unmatched.setdefault((str(agent.model), str(choice)), []).append(agent.name)
    for (model, choice_text), names in unmatched.items():
        which, verb = ("agent", "names") if len(names) == 1 else ("agents", "name")
        yield (
            f"The {which} {listed_shortly(names)} {verb} the model `{model}`, which `models` does "
            f"not allow; {choice_text} answers instead."
        )
    for owner, rules in lists.items():
        for rule in rules.rules:
            if not set("*?[") & set(rule.tool) and not known(rule.tool):
                yield f"{owner} has the rule “{rule}”, and there is no tool `{rule.tool}` here."
            if told := unknown_role(owner, rule.approver, config.roles):
                yield told
