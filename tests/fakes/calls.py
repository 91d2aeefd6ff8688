"""Calls of tools, as the toolbox makes them."""

from typing import Any

from bot.values import Clock, Identity, Place, Role, utc_now
from skills.base import Reach, Skill, ToolContext


def context_of(**given: Any) -> ToolContext:
    """Return the context of a call by the main agent, for a tool that needs little of it."""
    user = Identity("discord", "", "alice")
    around: dict[str, Any] = {
        "user": user,
        "role": Role.USER,
        "place": Place("discord"),
        "conversation_id": "c1",
        "work_id": "turn-1",
        "call_id": "1",
        "run_id": None,
        "now": utc_now,
    }
    return ToolContext(**(around | given))


class Caller:
    """Calls the tools of a skill for one user, from the main agent or from inside a run."""

    def __init__(
        self,
        skill: Skill,
        user: Identity,
        now: Clock,
        run_id: str | None = None,
        *,
        foreign: bool = False,
        agreed: bool = False,
    ) -> None:
        self._tools = {tool.name: tool for tool in skill.tools}
        self._user = user
        self._now = now
        self._run_id = run_id
        self._foreign, self._agreed = foreign, agreed
        self._calls = 0

    async def call(self, tool: str, /, *, call_id: str | None = None, **arguments: object) -> str:
        """Make a new call, or with `call_id` the same one again."""
        self._calls += 1
        return await self._tools[tool].run(
            self._context(call_id or f"{self._user.key}/{self._calls}"), arguments
        )

    def _context(self, call_id: str) -> ToolContext:
        return ToolContext(
            user=self._user,
            role=Role.USER,
            place=Place(self._user.platform),
            conversation_id="c1",
            work_id=self._run_id or "turn-1",
            call_id=call_id,
            run_id=self._run_id,
            now=self._now,
            depth=0 if self._run_id is None else 1,
            foreign=self._foreign,
            agreed=self._agreed,
        )

    async def reach(self, tool: str, /, **arguments: object) -> Reach:
        """Return the reach of a call."""
        reach_of = self._tools[tool].reach_of
        assert reach_of is not None
        return await reach_of(self._context("reach"), arguments)
