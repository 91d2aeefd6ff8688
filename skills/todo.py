"""To-do lists: an agent has one list for each conversation or run."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from bot.agent.sanitizer import escape_for_model, one_line, stored
from db import todos
from db.database import Database
from db.todos import Todo, progress
from skills.base import Audience, Skill, ToolContext, ToolError, changes_own, reads_here
from skills.declaration import SkillDeclaration

MOST_ITEMS = 50
MOST_CHARACTERS = 300

GUIDE = """\
With three steps or more ahead, write them down with todo_write, and again whenever one is done."""

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}


class TodoItem(BaseModel):
    """One thing to do, as a model writes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(description=f"At most {MOST_CHARACTERS} characters")
    status: Literal["pending", "in_progress", "done"] = "pending"


def build(database: Database) -> Skill:
    """Return the skill that stores lists in this database."""

    @changes_own(audience=Audience.TURN)
    async def todo_write(context: ToolContext, items: list[TodoItem]) -> str:
        """Write your whole list of things to do, in place of the one before; [] clears it."""
        if len(items) > MOST_ITEMS:
            raise ToolError(
                f"The list has {len(items)} items, and {MOST_ITEMS} is the most: put some together."
            )
        found = [Todo(one_line(stored(i.text), MOST_CHARACTERS), i.status) for i in items]
        if not all(item.text for item in found):
            raise ToolError("An item of the list is empty: say what is to be done.")
        await database.write(todos.write, _list(context), context.user.key, found, context.now())
        if not found:
            return "The list is cleared."
        # A run shows the list on its card; the main agent has no card.
        await context.report(summary(found))
        return f"Written: {progress(found)}."

    @reads_here(foreign=True, private=True, audience=Audience.TURN)
    async def todo_read(context: ToolContext) -> str:
        """Read your list of things to do."""
        found = await database.read(todos.read, _list(context), context.user.key)
        if not found:
            return "The list is empty."
        lines = [f"{_MARKS[item.status]} {item.text}" for item in found]
        return escape_for_model("\n".join([*lines, f"{progress(found)}."]))

    return Skill(
        name="todo",
        description="A list of what is to be done in this piece of work.",
        tools=(todo_write, todo_read),
        guide=GUIDE,
    )


def summary(items: list[Todo]) -> str:
    """Return the progress of a list, and the item in progress."""
    now = next((item.text for item in items if item.status == "in_progress"), "")
    return f"{progress(items)}: {now}" if now else progress(items)


def _list(context: ToolContext) -> str:
    """Return the id of the list: the run's or the conversation's. No argument can change it."""
    here = todos.list_of(context.conversation_id, context.user, shared=context.shared)
    return context.run_id or here


SKILL = SkillDeclaration(build=lambda services: build(services.database))
