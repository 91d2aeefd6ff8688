"""Agent Skills: instructions for certain kinds of work, read on demand."""

import asyncio
import logging
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field

from bot.agent.sanitizer import one_line
from bot.agent.settings import AgentSettings, AgentSkillsSettings
from bot.catalog.skill_files import NO_FILES, entries_to_copy, list_files, read_file
from bot.catalog.skills import AgentSkill, SkillCatalog, listed
from bot.files.opener import Opener
from skills.base import Skill, ToolContext, ToolError, reads_here
from skills.declaration import BotServices, SkillDeclaration, SkillParts

log = logging.getLogger(__name__)

#: The tool whose commands see the folders of skills.
SHELL = "shell"
BASE_DIRECTORY = """\
Base directory for this skill: {folder} (for the tool `shell`; read-only). Paths below start \
there: `python scripts/x.py` is `python {folder}/scripts/x.py`. Write files to /workspace."""

#: Longest header line above a page, in characters.
HEAD_CHARACTERS = 400


def build(folders: SkillCatalog, *, page_characters: int) -> Skill:
    """Return the skill that reads Agent Skills.

    Args:
        folders: The folders with the skills.
        page_characters: Longest tool result that a model is shown, in characters.
    """
    page = max(100, page_characters - HEAD_CHARACTERS)

    @reads_here(foreign=False, private=False)
    async def skill_read(
        context: ToolContext,
        name: Annotated[str, "The skill; without it all skills are listed"] = "",
        path: Annotated[str, "A file of the skill, such as references/forms.md"] = "",
        offset: Annotated[int, Field(ge=1), "The character to begin with, to go on"] = 1,
    ) -> str:
        """Read the instructions of a skill or, with a path, one of its files."""
        known = folders.by_name
        skill = known.get(name.strip())
        if skill is None:
            everything = paged("All skills", listed(known.values()), offset, page)
            if not name.strip():
                return everything
            raise ToolError(f"There is no skill {one_line(name)!r}. {everything}")
        if path.strip():
            text = await asyncio.to_thread(read_file, skill, path, folders.opener)
            return paged(f"{one_line(path, 200)} of the skill {skill.name}", text, offset, page)
        files = await asyncio.to_thread(list_files, skill, folders.opener)
        base = await asyncio.to_thread(_base_directory, skill, folders.opener, context.tools)
        about = [f"Files of this skill (skill_read with their path): {files}."]
        if skill.compatibility:
            about.append(f"It needs: {skill.compatibility}")
        if skill.tools:
            tools = ", ".join(skill.tools)
            about.append(f"It was written for the tools {tools}; you may lack some.")
        first = [base, ""] if files != NO_FILES else []
        text = "\n".join([*first, skill.body, "", *about])
        return paged(f"The skill {skill.name}", text, offset, page)

    return Skill(
        name="agent_skills",
        description="Instructions for certain kinds of work (SKILL.md).",
        tools=(skill_read,),
        guide=folders.catalog,
    )


def _base_directory(skill: AgentSkill, opener: Opener, tools: Collection[str]) -> str:
    """Return a sentence about the folder of a skill, as commands see it; this blocks."""
    if SHELL not in tools:
        return "You have no tool `shell`: the files of this skill can be read, not run."
    try:
        entries_to_copy(skill, opener)
    except ToolError as error:
        return f"The tool `shell` does not see the files of this skill. {error}"
    return BASE_DIRECTORY.format(folder=skill.in_sandbox)


def paged(what: str, text: str, offset: int, page: int) -> str:
    """Return one page of a text under a header with its range and the next offset (pure).

    Raises:
        ToolError: The offset is beyond the text.
    """
    if not text:
        return f"{what}: nothing."
    if offset > len(text):
        raise ToolError(f"{what}: it has {len(text):,} characters. Take a smaller offset.")
    part = text[offset - 1 : offset - 1 + page]
    end = offset - 1 + len(part)
    if offset == 1 and end == len(text):
        return f"{what}:\n\n{part}"
    if end < len(text) and (line := part.rfind("\n") + 1) > page // 2:
        part = part[:line]
        end = offset - 1 + len(part)
    more = f" Go on with offset={end + 1}." if end < len(text) else ""
    return f"{what}: characters {offset:,} to {end:,} of {len(text):,}.{more}\n\n{part}"


def run_guide(catalog: SkillCatalog, names: tuple[str, ...], tools: tuple[str, ...]) -> str:
    """Return the text about Agent Skills in the prompt of a run.

    Args:
        catalog: All Agent Skills.
        names: The skills that the agent names: their full text is included.
        tools: The names of the run's tools; with `skill_read` the other skills are listed.
    """
    bodies, unknown = catalog.bodies(names, with_shell=SHELL in tools)
    for name in unknown:
        log.warning("An agent names the skill %s, which is not there", name)
    there = catalog.catalog() if "skill_read" in tools else ""
    return "\n\n".join(part for part in (bodies, there) if part)


def _parts(services: BotServices) -> SkillParts:
    folders = services.config.section(AgentSkillsSettings).folders
    catalog = SkillCatalog([Path(each) for each in folders])
    for problem in catalog.problems:
        log.warning("%s", problem)
    page = services.config.section(AgentSettings).tool_result_characters
    return SkillParts(
        skills=(build(catalog, page_characters=page),) if folders else (),
        run_guide=partial(run_guide, catalog),
    )


SKILL = SkillDeclaration(build=_parts)
