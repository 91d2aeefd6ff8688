"""Lists and calls the tools of one agent; checks the scope at both points."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from bot.agent.call_rules import ruled, usable_skills
from bot.agent.documents import too_deep
from bot.agent.messages import Media, ToolCall, ToolResult
from bot.agent.permissions import ALL_ALLOWED, Decision, Permissions, Verdict
from bot.agent.plain import cut
from bot.agent.protocols import AskedCall, RunApprover, TurnApprover
from bot.agent.sanitizer import for_log, stored
from bot.errors import BotError, DatabaseUnreachableError, FencedError, LeftError, ToolError
from bot.models.base import OfferedTools, ToolDescription, offered
from bot.tasks import Tasks
from bot.values import Json
from skills.base import Audience, Effects, Reach, Tool, ToolContext

log = logging.getLogger(__name__)

ASK = Decision.ASK
MAX_RESULT_CHARACTERS = 200_000
MAX_ARGUMENT_CHARACTERS = 100_000
GRACE_SECONDS = 1.0

TIME_IS_UP = "Not finished: the time of this work is up."
#: The wording of the reference design for subagents (features L8).
REQUIRED = "Permission required: {reason}. Subagents cannot request user permission."
BROKEN = "{} failed on our side. Try another way, or go on without it."
FOREIGN = "the conversation holds content that neither you nor the bot wrote"
OTHERS = "others take part in this conversation, and this reads or changes what is yours alone"
DESTROYS = f"not everything could be restored afterwards, and {FOREIGN}"
NOBODY = "{} needs a user's yes, and there is no one to ask: it was not done."
CHANGED = "{} was permitted, but not done: meanwhile this applies: {}."
FAILED = "{} failed on our side: it was not done."
UNSTORED = "{} This call is not repeated by itself: make it again later, or tell the user."


@dataclass(frozen=True, slots=True)
class Approved:
    """A step whose calls the user approved before the turn began.

    Attributes:
        step: The number of the step.
        again: Whether an earlier attempt may have begun the calls.
    """

    step: int
    again: bool = False

    def covers(self, context: ToolContext) -> bool:
        """Return True if a call belongs to the step."""
        return context.call_id.startswith(f"{self.step}.")


#: Returns the seconds that are left for a turn or run; infinite for no limit.
Left = Callable[[], float]


class Toolbox:
    """Offers and calls the tools of one agent.

    Args:
        tools: The tools that the registry grants this agent.
        is_subagent: Whether to refuse main-agent-only tools, even if `tools` holds them.
        tasks: Owns the calls, including a call that ignores cancellation.
        timeout_seconds: The time limit of tools without a limit of their own.
        approver: Asks the user of the main agent; without an approver, a tool that needs
            confirmation is refused.
        permissions: The permission rules; by default every call is allowed.
        gate: Asks the owner of a run; without a gate, a call that needs permission is refused.
        approved: The step whose calls need no further approval, if any.

    Attributes:
        names: The names of the tools that every request carries.
        descriptions: The tools that every request carries, as a model sees them.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        is_subagent: bool,
        tasks: Tasks,
        timeout_seconds: float,
        approver: TurnApprover | None = None,
        permissions: Permissions = ALL_ALLOWED,
        gate: RunApprover | None = None,
        approved: Approved | None = None,
    ) -> None:
        self._tools = {
            tool.name: tool
            for tool in tools
            if not (is_subagent and tool.main_agent_only) and permissions.offers(tool.name)
        }
        self._permissions = permissions
        self._gate = gate
        self._approved = approved
        self._verdicts: dict[str, tuple[ToolCall, Verdict]] = {}
        self._questions: dict[str, AskedCall] = {}
        self._confirmations: dict[str, ToolResult] = {}
        self._refusals: dict[str, str] = {}
        self._asking = asyncio.Lock()
        self._is_subagent = is_subagent
        self._tasks = tasks
        self._timeout_seconds = timeout_seconds
        self._approver = approver
        carried = (name for name, tool in self._tools.items() if not tool.deferred)
        self.descriptions = self.described(carried)
        self.names = tuple(each.name for each in self.descriptions)

    def described(self, names: Iterable[str]) -> OfferedTools:
        """Return the tools of these names as a model sees them, without unknown ones."""
        tools = (self._tools[name] for name in names if name in self._tools)
        return offered(ToolDescription(each.name, each.description, each.schema) for each in tools)

    def effects(self, name: str) -> Effects:
        """Return the effects of repeating a call of this tool; none for an unknown tool."""
        tool = self._tools.get(name)
        return tool.effects if tool else Effects.NONE

    async def may_have_begun(self, call: ToolCall, context: ToolContext) -> bool:
        """Return True if an interrupted attempt may have made a call that must not be repeated.

        The rules may have changed since, so only a stored question proves that the call was not
        made: a question that was refused or is still open.
        """
        tool = self._tools.get(call.name)
        if tool is None or tool.effects is not Effects.ONCE:
            return False
        if self._approved is not None and self._approved.covers(context):
            return self._approved.again
        if self._approver is not None:
            # A question of the main agent is asked once, however often the call is made.
            return (await self._judge(tool, call, context)).decision is not ASK
        return self._gate is None or await self._gate.may_have_begun(call, context)

    async def begin_step(self, calls: Sequence[tuple[ToolCall, ToolContext]]) -> None:
        """Find the calls of a step that need approval, before any call is made.

        One question covers all of them; it is asked when the first of them is to be made.
        """
        self._verdicts, self._questions, self._confirmations = {}, {}, {}
        for call, context in calls:
            tool = self._tools.get(call.name)
            if tool is None or self._refuse(call, tool, context):
                continue
            verdict = await self._judge(tool, call, context)
            self._verdicts[context.call_id] = call, verdict
            if verdict.decision is ASK:
                asked = AskedCall(
                    tool=tool,
                    call=call,
                    context=context,
                    reason=verdict.reason,
                    approver=verdict.approver,
                    rule=verdict.rule,
                )
                self._questions[context.call_id] = asked

    async def call(
        self, call: ToolCall, context: ToolContext, *, left: Left = lambda: inf
    ) -> ToolResult:
        """Make one call; any error becomes a result that the model can act on.

        Args:
            call: The call requested by the model.
            context: The context of the call.
            left: Returns the seconds left for the work, which limit the tool. The time is paused
                while the work waits for a user.
        """
        tool = self._tools.get(call.name)
        refusal = self._refuse(call, tool, context)
        if refusal or tool is None:
            return ToolResult(call.id, refusal, failed=True)
        judged, _ = self._verdicts.get(context.call_id, (None, None))
        if judged != call:
            await self.begin_step([(call, context)])
        _, verdict = self._verdicts[context.call_id]
        if verdict.decision is Decision.DENY:
            log.info("The tool %s was denied: %s", call.name, verdict.reason)
            return ToolResult(call.id, f"Permission denied: {verdict.reason}.", failed=True)
        if verdict.decision is ASK:
            if self._approver is not None:
                return await self._confirm(self._approver, context)
            if tool.needs_confirmation:
                return ToolResult(call.id, NOBODY.format(tool.name), failed=True)
            if refused := await self._ask(tool, call, context, verdict):
                return ToolResult(call.id, refused, failed=True)
        covered = self._approved is not None and self._approved.covers(context)
        if covered or verdict.decision is ASK:
            context = replace(context, agreed=True)
        limit = self.timeout_of(call.name)
        if tool.credential:
            await context.credential_used(context, tool.credential)
        found: list[str] = []
        shown: list[Media] = []
        context = replace(
            context,
            found=found.extend,
            show=shown.append,
            tools=frozenset(self._tools),
            usable_skills=partial(usable_skills, self._permissions, self._tools, context),
        )
        text, failed = await self._run(tool, call.arguments, context, limit, left)
        kept = stored(text[:MAX_RESULT_CHARACTERS])
        kept = cut(kept, MAX_RESULT_CHARACTERS, more=len(text) > MAX_RESULT_CHARACTERS)
        return ToolResult(
            call.id,
            kept,
            failed=failed,
            foreign=tool.foreign,
            private=tool.private,
            found=tuple(found),
            media=() if failed else tuple(shown),
        )

    def timeout_of(self, name: str) -> float:
        """Return the timeout of a tool, in seconds."""
        tool = self._tools.get(name)
        return (tool.timeout_seconds if tool else None) or self._timeout_seconds

    def _refuse(self, call: ToolCall, tool: Tool | None, context: ToolContext) -> str:
        is_subagent = self._is_subagent or context.run_id is not None
        if tool is None or (is_subagent and tool.main_agent_only):
            log.warning("Refused the tool %s", for_log(call.name[:100]))
            known = ", ".join(self.names) or "none"
            return f"You have no tool {call.name[:100]!r}. Your tools: {known}."
        if call.malformed:
            return (
                f"{call.name} was not called: its arguments are no JSON object. "
                "Write them as one JSON object and call it again."
            )
        if too_deep(call.arguments):
            return f"{call.name} was not called: its arguments are nested too deeply. Flatten them."
        if len(call.arguments) > 100 or len(repr(call.arguments)) > MAX_ARGUMENT_CHARACTERS:
            return f"{call.name} was not called: its arguments are too long. Shorten them."
        try:
            if tool.check is not None:
                tool.check(call.arguments)
        except BotError as error:
            return str(error)
        except Exception:
            log.exception("The arguments of %s cannot be checked", tool.name)
            return BROKEN.format(tool.name)
        return ""

    async def _judge(self, tool: Tool, call: ToolCall, context: ToolContext) -> Verdict:
        """Return the decision about a call by the rules, its tool and the content of the prompt."""
        verdict = await ruled(self._permissions, tool, call, context)
        if verdict.decision is Decision.DENY:
            return verdict
        if self._approved is not None and self._approved.covers(context):
            return Verdict(Decision.ALLOW)
        if verdict.decision is ASK:
            return verdict
        personal = tool.read_by(call.arguments) is Audience.PERSONAL
        if context.others and personal and tool.name not in context.granted:
            return Verdict(ASK, OTHERS)
        if context.foreign:
            # If the reach of the call cannot be determined, the farthest reach of the tool counts.
            reach = tool.reach
            try:
                if tool.reach_of is not None:
                    reach = await tool.reach_of(context, call.arguments)
            except Exception as error:
                if not isinstance(error, BotError):
                    log.exception("The reach of a call of %s is unknown", tool.name)
            if reach in {Reach.ACTS_BEYOND, Reach.DESTROYS}:
                return Verdict(ASK, DESTROYS if reach is Reach.DESTROYS else FOREIGN)
        if tool.reason_to_ask is not None:
            try:
                reason = await tool.reason_to_ask(context, call.arguments)
            except ToolError as error:
                return Verdict(Decision.DENY, str(error).removesuffix("."))
            return Verdict(ASK, reason) if reason else verdict
        return verdict

    async def _ask(self, tool: Tool, call: ToolCall, context: ToolContext, verdict: Verdict) -> str:
        """Ask the owner of a run about all calls of the step, unless another call did, and wait.

        Returns:
            The reason why the call may not be made; empty if it may.
        """
        if self._gate is None:
            return REQUIRED.format(reason=verdict.reason)
        try:
            async with self._asking:
                if context.call_id not in self._refusals:
                    every = self._questions.values()
                    asked = [each for each in every if not each.tool.needs_confirmation]
                    refusals = await self._gate.permit(asked)
                    ids = (each.context.call_id for each in asked)
                    self._refusals |= dict(zip(ids, refusals, strict=True))
            if refused := self._refusals.pop(context.call_id):
                return refused
            # The answer may have taken minutes, in which rules or rights have changed.
            now = await self._judge(tool, call, context)
            if now.decision is Decision.DENY or now.approver not in {"", verdict.approver}:
                return CHANGED.format(tool.name, now.reason)
            return await self._gate.begin(tool, call, context)
        except ToolError as error:
            return str(error)

    async def _confirm(self, approver: TurnApprover, context: ToolContext) -> ToolResult:
        """Ask about all calls of the step, unless another call did; return the result."""
        async with self._asking:
            if context.call_id not in self._confirmations:
                asked = list(self._questions.values())
                answers: Sequence[Json | BotError]
                try:
                    answers = await approver.ask(asked)
                except BotError as error:
                    answers = [error] * len(asked)
                except Exception:
                    names = ", ".join(each.tool.name for each in asked)
                    log.exception("Asking for %s failed", names)
                    answers = [BotError(FAILED.format(each.tool.name)) for each in asked]
                for each, answer in zip(asked, answers, strict=True):
                    failed = isinstance(answer, BotError)
                    text = str(answer) if failed else json.dumps(answer, ensure_ascii=False)
                    result = ToolResult(each.call.id, text, failed=failed)
                    self._confirmations[each.context.call_id] = result
        return self._confirmations[context.call_id]

    async def _run(
        self,
        tool: Tool,
        arguments: Json,
        context: ToolContext,
        limit: float,
        left: Left,
    ) -> tuple[str, bool]:
        """Return the text of the result and whether it is an error.

        The call runs in a task of its own. A call that ignores cancellation is logged and left
        behind, so that it does not block the work.
        """
        if left() <= 0:
            return TIME_IS_UP, True
        task = self._tasks.start(_guarded(tool, arguments, context), name=f"tool {tool.name}")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        try:
            # The remaining time is read again after each wait, since the clock of the work may have
            # been paused meanwhile.
            while not task.done() and (rest := min(deadline - loop.time(), left())) > 0:
                await asyncio.wait({task}, timeout=rest)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_SECONDS)
            raise
        if task.cancelled():
            return f"{tool.name} was cancelled from within. Try another way, or go on.", True
        if task.done():
            return task.result()
        over = loop.time() < deadline
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE_SECONDS)
        if not task.done():
            log.error("The tool %s ignores being cancelled", tool.name)
        if over:
            return TIME_IS_UP, True
        return (
            f"{tool.name} did not answer within {limit:g} seconds and was stopped. "
            "Try something smaller, or go on without it.",
            True,
        )


async def _guarded(tool: Tool, arguments: Json, context: ToolContext) -> tuple[str, bool]:
    try:
        text = await tool.run(context, arguments)
    except (FencedError, LeftError):
        raise  # no error of the tool: the work itself ends here
    except BotError as error:
        outage = isinstance(error, DatabaseUnreachableError)
        return UNSTORED.format(error) if outage else str(error), True
    except Exception:
        log.exception("The tool %s failed", tool.name)
        return BROKEN.format(tool.name), True
    if not isinstance(text, str):
        log.error("The tool %s returned %.100r, which is no text", tool.name, text)
        return BROKEN.format(tool.name), True
    return text, False


def may_have_run(call: ToolCall) -> ToolResult:
    """Return the result of a call that began, was interrupted, and must not be repeated."""
    return ToolResult(
        call.id,
        f"{call.name} may have run: it was interrupted while it was at work, and it is not made "
        "twice. Check what it changed, and tell the user.",
        failed=True,
    )
