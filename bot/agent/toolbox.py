"""The tools of one agent: scoped when they are listed and again when they are called."""

import asyncio
import json
import logging
from collections.abc import Iterable
from dataclasses import replace

from bot.agent.messages import ToolCall, ToolResult
from bot.agent.plain import cut
from bot.agent.protocols import Approver
from bot.agent.sanitizer import stored
from bot.errors import BotError
from bot.models.base import ToolDescription
from bot.tasks import Tasks
from bot.values import Json
from skills.base import Effects, Tool, ToolContext

log = logging.getLogger(__name__)

MAX_RESULT_CHARACTERS = 200_000
MAX_ARGUMENT_CHARACTERS = 100_000
GRACE_SECONDS = 1.0

TIME_IS_UP = "Not finished: the time of this work is up."
BROKEN = "{} failed on our side. Try another way, or go on without it."


class Toolbox:
    """What one agent may call.

    Args:
        tools: What the registry lets this agent have.
        is_subagent: Refuse main-agent-only tools once more, whatever `tools` holds.
        tasks: Owns a call that ignores being cancelled.
        timeout_seconds: For tools that set no limit of their own.
        approver: Asks the person; without one, a tool that needs a yes is refused.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        is_subagent: bool,
        tasks: Tasks,
        timeout_seconds: float,
        approver: Approver | None = None,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools if self._may(tool, is_subagent)}
        self._is_subagent = is_subagent
        self._tasks = tasks
        self._timeout_seconds = timeout_seconds
        self._approver = approver
        self.descriptions = tuple(
            ToolDescription(tool.name, tool.description, tool.schema)
            for tool in self._tools.values()
        )

    @staticmethod
    def _may(tool: Tool, is_subagent: bool) -> bool:  # noqa: FBT001 - private
        return not (is_subagent and tool.main_agent_only)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, in order."""
        return tuple(self._tools)

    def effects(self, name: str) -> Effects:
        """Return what calling this tool twice would do; nothing for an unknown one."""
        tool = self._tools.get(name)
        return tool.effects if tool else Effects.NONE

    async def call(
        self, call: ToolCall, context: ToolContext, *, seconds: float | None = None
    ) -> ToolResult:
        """Make one call. Whatever goes wrong becomes a result that the model can act on.

        Args:
            call: What the model asked for.
            context: Who asks.
            seconds: The time left for the work; a tool may use no more.
        """
        tool = self._tools.get(call.name)
        refusal = self._refuse(call, tool, context)
        if refusal or tool is None:
            return ToolResult(call.id, refusal, failed=True)
        if tool.needs_confirmation:
            return await self._confirm(tool, call, context)
        limit = tool.timeout_seconds or self._timeout_seconds
        text, failed = await self._run(tool, call.arguments, context, limit, seconds)
        kept = stored(text[:MAX_RESULT_CHARACTERS])
        kept = cut(kept, MAX_RESULT_CHARACTERS, more=len(text) > MAX_RESULT_CHARACTERS)
        return ToolResult(call.id, kept, failed=failed)

    def _refuse(self, call: ToolCall, tool: Tool | None, context: ToolContext) -> str:
        if tool is None or not self._may(tool, self._is_subagent or context.run_id is not None):
            log.warning("Refused the tool %s", call.name[:100])
            known = ", ".join(self._tools) or "none"
            return f"You have no tool {call.name[:100]!r}. Your tools: {known}."
        if call.malformed:
            return (
                f"{call.name} was not called: its arguments are no JSON object. "
                "Write them as one JSON object and call it again."
            )
        if len(call.arguments) > 100 or len(repr(call.arguments)) > MAX_ARGUMENT_CHARACTERS:
            return f"{call.name} was not called: its arguments are too long. Shorten them."
        return ""

    async def _confirm(self, tool: Tool, call: ToolCall, context: ToolContext) -> ToolResult:
        if self._approver is None:
            text = f"{tool.name} needs a person's yes, and there is no one to ask: it was not done."
            return ToolResult(call.id, text, failed=True)
        try:
            told = await self._approver.ask(tool, call, context)
        except BotError as error:
            return ToolResult(call.id, str(error), failed=True)
        except Exception:
            log.exception("Asking for %s failed", tool.name)
            text = f"{tool.name} failed on our side: it was not done."
            return ToolResult(call.id, text, failed=True)
        return ToolResult(call.id, json.dumps(told, ensure_ascii=False))

    async def _run(
        self,
        tool: Tool,
        arguments: Json,
        context: ToolContext,
        limit: float,
        left: float | None,
    ) -> tuple[str, bool]:
        """Return the text of the result and whether it is an error.

        The call has a task of its own, so that one which ignores being cancelled can be left
        behind and reported instead of holding up the work.
        """
        if left is not None and left <= 0:
            return TIME_IS_UP, True
        task = self._tasks.start(_guarded(tool, arguments, context), name=f"tool {tool.name}")
        try:
            await asyncio.wait({task}, timeout=limit if left is None else min(limit, left))
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_SECONDS)
            raise
        if task.cancelled():
            return f"{tool.name} was cancelled from within. Try another way, or go on.", True
        if task.done():
            result: tuple[str, bool] = task.result()
            return result
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE_SECONDS)
        if not task.done():
            log.error("The tool %s ignores being cancelled", tool.name)
        if left is not None and left < limit:
            return TIME_IS_UP, True
        return (
            f"{tool.name} did not answer within {limit:g} seconds and was stopped. "
            "Try something smaller, or go on without it.",
            True,
        )


async def _guarded(tool: Tool, arguments: Json, context: ToolContext) -> tuple[str, bool]:
    try:
        text = await tool.run(context, arguments)
    except BotError as error:
        return str(error), True
    except Exception:
        log.exception("The tool %s failed", tool.name)
        return BROKEN.format(tool.name), True
    if not isinstance(text, str):
        log.error("The tool %s returned %.100r, which is no text", tool.name, text)
        return BROKEN.format(tool.name), True
    return text, False


def may_have_run(call: ToolCall) -> ToolResult:
    """Return the result of a call that was begun before a crash and must not be made again."""
    return ToolResult(
        call.id,
        f"{call.name} may have run: the process ended while it was at work, and it is not made "
        "twice. Check what it changed, and tell the person.",
        failed=True,
    )


def with_unique_ids(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls, each under an id of its own, as the results refer to them by it."""
    seen: set[str] = set()
    unique = []
    for index, call in enumerate(calls):
        fresh = call
        while not fresh.id or fresh.id in seen:
            fresh = replace(fresh, id=f"{fresh.id}_{index}")
        seen.add(fresh.id)
        unique.append(fresh)
    return tuple(unique)
