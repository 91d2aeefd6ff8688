"""Runs one agent: asks the model, calls the requested tools, and repeats until it replies."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from math import inf

from bot.agent.activity import STALLED_REPORT_SECONDS
from bot.agent.budget import LEAST_OUTPUT, Spending
from bot.agent.context import fit, noted, shorten, without_earlier_images, without_media
from bot.agent.messages import (
    Answer,
    Message,
    StopReason,
    ToolCall,
    ToolResult,
    ToolResults,
    estimate_tokens,
    with_unique_ids,
)
from bot.agent.progress import AgentResult, Halt, LastStep, Progress, last_step, waiting
from bot.agent.protocols import AgentConfig, AgentContext, AnswerEntry, ResultEntry
from bot.agent.tool_search import meant
from bot.agent.toolbox import Toolbox, may_have_run
from bot.counted_events import ToolCalled
from bot.errors import (
    ContextTooLongError,
    ImagesRefusedError,
    ModelError,
    SpendingLimitError,
)
from bot.models.base import WAIT_MARGIN_SECONDS, Model, ModelRequest, OnText, ToolDescription
from bot.values import RunStatus
from skills.base import Effects, ToolContext

log = logging.getLogger(__name__)

SAME_CALLS = 3
#: Output tokens charged for an answer that a crash of the process interrupts. Few answers are
#: longer, and a charge of the greatest length would use up the budget of a run.
INTERRUPTED_OUTPUT = 4_096
#: Seconds that the last step may wait for a busy provider after the time limit.
REPORT_SECONDS = 30.0


@dataclass(eq=False, slots=True)
class BaseAgent:
    """Runs the loop of the main agent or of a subagent; one instance serves one turn or run."""

    config: AgentConfig
    model: Model
    toolbox: Toolbox
    context: AgentContext
    _: KW_ONLY
    progress: Progress = field(default_factory=Progress)
    _history: int = 0
    _accepts_media: bool = True
    _spending: Spending = field(init=False)

    def __post_init__(self) -> None:
        config = self.config
        self._spending = Spending(
            config.prompt, config.model, self.toolbox.descriptions, config.cached_weight
        )

    async def run(
        self, messages: Sequence[Message], *, history: int = 0, on_text: OnText | None = None
    ) -> AgentResult:
        """Continue from the end of the journal until the model replies or a limit is reached.

        Args:
            messages: The history and the task that the agent starts with.
            history: Number of leading messages that the next turn begins with as well.
            on_text: Receives the text of streamed answers; without it, answers arrive whole.

        Raises:
            FencedError: Another process has taken over this turn or run.
        """
        progress, config = self.progress, self.config
        self._history = history
        caller = self.context.caller
        progress.foreign, progress.private = caller.foreign, caller.private
        progress.begin(messages, await self.context.journal.load())
        progress.tool_calls = min(progress.tool_calls, config.max_tool_calls)
        if progress.answers and progress.answers[-1] in progress.messages[-1:]:
            shown = fit(
                progress.messages[:-1],
                tokens=config.context_tokens,
                result_characters=config.tool_result_characters,
            )
            self._spending.recall(shown, progress.answers[-1].usage)
        progress.charge_earlier(self.context.spent_before)
        self.context.budget.charge(progress.usage)
        while progress.halt is None:
            progress.halt = await self._step(progress, on_text)
        return progress.result()

    async def _step(self, progress: Progress, on_text: OnText | None) -> Halt | None:
        """Take one step: make the calls of the last answer, send the results, get one answer."""
        received = await self._results(progress)
        if isinstance(received, Halt):
            return received
        config, context = self.config, self.context
        limit = self._limit(progress, received)
        arrived = await context.inbox.take() if context.inbox else ()
        notes = [f"A message from the user:\n{text}" for _, text in arrived]
        if limit:
            notes.append(last_step(limit))
        else:
            used = {
                "time": context.timer.fraction,
                "token budget": context.budget.fraction,
                "tool calls": progress.tool_calls / config.max_tool_calls,
                "steps": progress.steps / config.max_steps,
            }
            notes.append(progress.warning(used))
        notes.append(progress.note)
        progress.note = ""
        if note := "\n\n".join(filter(None, notes)):
            received = noted(received, note)
        shown = [*progress.messages, received] if received else progress.messages
        last = LastStep(limit) if limit else None
        outcome = await self._ask(shown, last, on_text)
        if isinstance(outcome, LastStep):
            # A limit was reached during the step: ask once more, without tools.
            last = outcome
            received = noted(received, last_step(last.limit))
            outcome = await self._ask([*progress.messages, received], last, None)
            if not isinstance(outcome, Answer):
                return Halt(last.limit, last.reason)
        if isinstance(outcome, Halt):
            return outcome
        if last and outcome.calls:
            outcome = replace(outcome, calls=(), native=None)
        read = tuple(identifier for identifier, _ in arrived)
        limit, reason = (last.limit, last.reason) if last else (None, "")
        entry = AnswerEntry(received, outcome, limit, read, reason)
        progress.add(entry)
        halt = progress.halt_after(entry)
        counters = progress.counters(0 if halt else self._next_cost())
        await context.journal.write(entry, counters)
        if read and context.inbox:
            context.inbox.mark_read(read)
        context.report(part="step", content=outcome.text, tool="", counters=counters)
        return halt

    # -- before the request ---------------------------------------------------------------------

    def _limit(self, progress: Progress, received: Message | None) -> RunStatus | None:
        """Return the reached limit that leaves only the last step; `None` below all limits."""
        config, context = self.config, self.context
        if context.activity.stalled:
            return RunStatus.STALLED
        if context.timer.left() <= 0:
            return RunStatus.TIMEOUT
        if progress.tool_calls >= config.max_tool_calls:
            return RunStatus.MAX_TOOL_CALLS
        if progress.steps >= config.max_steps:
            return RunStatus.MAX_STEPS
        messages = progress.messages
        if received is not None:
            messages = [*messages, shorten(received, config.tool_result_characters)]
        estimate = self._spending.expected(messages, most=config.context_tokens)
        # The last step forbids tools, which invalidates the cached messages.
        context.budget.set_aside(
            self._spending.weighted_fixed(self.toolbox.descriptions)
            + min(estimate_tokens(messages), config.context_tokens)
        )
        if context.budget.allow(estimate, config.max_response_tokens) is None:
            return RunStatus.BUDGET_EXCEEDED
        return None

    def _next_cost(self) -> int:
        config = self.config
        estimate = self._spending.expected(self.progress.messages, most=config.context_tokens)
        output = min(config.max_response_tokens, INTERRUPTED_OUTPUT)
        return self.context.budget.reservation(estimate, output)

    # -- the request ----------------------------------------------------------------------------

    async def _ask(
        self, messages: Sequence[Message], last: LastStep | None, on_text: OnText | None
    ) -> Answer | Halt | LastStep:
        """Return the answer, a `Halt`, or a `LastStep` if a limit was reached meanwhile."""
        request = self._request(messages, last, on_text)
        if request is None:
            return Halt(last.limit, last.reason) if last else Halt(RunStatus.BUDGET_EXCEEDED)
        activity, left = self.context.activity, self.context.timer.left()
        if last:
            left = STALLED_REPORT_SECONDS if activity.stalled else inf
        try:
            async with asyncio.timeout(None if left == inf else left) as scope:
                with activity.interruptible(scope):
                    return await self._ask_with_fewer_images(request, on_text)
        except TimeoutError:
            return LastStep(RunStatus.STALLED if activity.stalled else RunStatus.TIMEOUT)
        except SpendingLimitError as error:
            limit, reason = RunStatus.BUDGET_EXCEEDED, str(error)
            if last or error.report is None or not self.progress.answers:
                return Halt(last.limit if last else limit, reason)
            return LastStep(limit, reason, error.report)
        except ModelError as error:
            log.warning("The model gave no answer: %s", error)
            return Halt(last.limit, last.reason) if last else Halt(RunStatus.FAILED, str(error))

    async def _ask_with_fewer_images(self, request: ModelRequest, on_text: OnText | None) -> Answer:
        """Ask; without images of earlier messages if the model refuses them.

        Otherwise one unsupported image would block the whole conversation.
        """
        try:
            return await self._ask_fitting(request, on_text)
        except ImagesRefusedError:
            fewer = without_media(without_earlier_images(request.messages))
            if fewer == request.messages:
                raise
            log.info("The model is asked again without images of earlier messages")
            self._accepts_media = False
            return await self._ask_fitting(replace(request, messages=fewer), on_text)

    async def _ask_fitting(self, request: ModelRequest, on_text: OnText | None) -> Answer:
        """Ask; if the messages exceed the model's context, ask again with half of them."""
        for _ in range(2):
            expected = self._spending.expected_input(request)
            request = replace(request, expected_input=expected)
            with suppress(ContextTooLongError):
                answer = await self.model.ask(request, on_text)
                answer = replace(answer, usage=self._spending.weighed(request, answer))
                self.context.budget.charge(answer.usage)
                if answer.stop is not StopReason.CONTEXT_FULL:
                    calls = with_unique_ids(answer.calls)
                    # The provider's own blocks still hold the original ids.
                    same = calls == answer.calls
                    return answer if same else replace(answer, calls=calls, native=None)
                # The answer is discarded, but its tokens were charged.
                self.progress.extra += answer.usage
            half = estimate_tokens(request.messages) // 2
            shorter = fit(request.messages, tokens=half, result_characters=2_000)
            request = replace(request, messages=shorter)
        raise ContextTooLongError(
            "This is too long for the model, even without its older half. Start a new conversation "
            "with `!new`, or make the task shorter."
        )

    def _request(
        self, messages: Sequence[Message], last: LastStep | None, on_text: OnText | None
    ) -> ModelRequest | None:
        """Return the request for the next answer; `None` if the budget is too small for it."""
        config, budget = self.config, self.context.budget
        if not self._accepts_media:
            messages = without_media(messages)
        room, output = config.context_tokens, config.max_response_tokens
        tools: tuple[ToolDescription, ...] = self.toolbox.descriptions
        left = self.context.timer.left()
        if last:
            # Providers refuse a history with calls if the request has no tools. Without calls, the
            # tools are omitted to save their tokens.
            if not any(isinstance(message, Answer) and message.calls for message in messages):
                tools = ()
            allowed = self._allowed_last(last, tools)
            if allowed is None:
                return None
            room, output = min(room, allowed[0]), allowed[1]
            stalled = last.limit is RunStatus.STALLED
            left = STALLED_REPORT_SECONDS if stalled else max(REPORT_SECONDS, left)
        shown = fit(messages, tokens=room, result_characters=config.tool_result_characters)
        if last is None:
            output = budget.allow(self._spending.expected(shown), output) or LEAST_OUTPUT

        def on_wait(reason: str, seconds: float) -> None:
            self.context.activity.note_wait(seconds)
            if line := waiting(reason, seconds):
                self.context.report(
                    part="waiting", content=line, tool="", counters=self.progress.counters(0)
                )
                if on_text is not None:
                    on_text(line)

        return ModelRequest(
            model=config.model,
            prompt=config.prompt,
            messages=shown,
            tools=tools,
            found=self._found(shown),
            tools_allowed=last is None,
            max_tokens=output,
            effort=config.effort,
            # `fit` omits older messages first, so the shared history shrinks by as many.
            history=max(0, self._history - (len(messages) - len(shown))),
            user_hash=config.user_hash,
            background=config.background,
            seconds=max(0.0, left - WAIT_MARGIN_SECONDS),
            on_wait=on_wait,
            on_activity=self.context.activity.note,
            on_lost=lambda asked, lost: self.progress.spend(
                budget, self._spending.lost(asked, lost)
            ),
            payer=self.context.caller.payer,
        )

    def _allowed_last(
        self, last: LastStep, tools: tuple[ToolDescription, ...]
    ) -> tuple[int, int] | None:
        """Return the most tokens of messages and of output of a last step; `None` if none fits."""
        allowed = self.context.budget.allow_last(self.config.max_response_tokens)
        if allowed is None:
            return None
        room, output = allowed[0] - self._spending.weighted_fixed(tools), allowed[1]
        if last.report:
            room = min(room, last.report[0] - self._spending.fixed(tools))
            output = min(output, last.report[1])
        return (room, output) if room > 0 else None

    def _found(self, messages: Sequence[Message]) -> tuple[ToolDescription, ...]:
        """Return the tools that results of the messages have found, without those of `tools`."""
        results = (each for each in messages if isinstance(each, ToolResults))
        names = dict.fromkeys(
            name for each in results for one in each.results for name in one.found
        )
        return self.toolbox.described(name for name in names if name not in self.toolbox.names)

    # -- the calls -------------------------------------------------------------------------------

    async def _results(self, progress: Progress) -> Message | Halt | None:
        """Make the calls of the newest answer concurrently; return their results in order."""
        calls = tuple(map(meant, progress.open_calls()))
        if not calls:
            return None
        repeated = progress.repeated(calls, SAME_CALLS)
        if repeated:
            return Halt(
                RunStatus.FAILED,
                f"It {repeated} {SAME_CALLS} times in a row and was stopped.",
            )
        allowed = max(0, self.config.max_tool_calls - progress.tool_calls)
        progress.tool_calls += min(len(calls), allowed)
        over = "Not called: you have made all the tool calls you may make."
        results = [ToolResult(call.id, over, failed=True) for call in calls]
        inbox, resumed = self.context.inbox, progress.resumed_at == progress.steps
        begun: list[tuple[int, ToolCall, ToolContext]] = []
        for index, call in enumerate(calls[:allowed]):
            context = replace(
                self.context.caller,
                call_id=f"{progress.steps}.{index}",
                spent=partial(progress.spend, self.context.budget),
                background=self.config.background,
                foreign=progress.foreign or (inbox is not None and inbox.foreign),
                private=progress.private or (inbox is not None and inbox.private),
            )
            if stored := progress.results.get((progress.steps, index)):
                results[index] = stored
            elif resumed and await self.toolbox.may_have_begun(call, context):
                results[index] = may_have_run(call)
            else:
                begun.append((index, call, context))
        # The toolbox asks once about all calls that this attempt may make.
        await self.toolbox.begin_step([(call, context) for _, call, context in begun])
        made: dict[int, ToolResult] = {}

        async def make(index: int, call: ToolCall, context: ToolContext) -> None:
            made[index] = await self._call(progress, index, call, context)

        await self.context.activity.do_all(make(*each) for each in begun)
        for index, call, _ in begun:
            results[index] = made.get(index) or may_have_run(call)
        return ToolResults(tuple(results))

    async def _call(
        self, progress: Progress, index: int, call: ToolCall, context: ToolContext
    ) -> ToolResult:
        """Make one call of the newest answer, and store its result if it must not be repeated."""
        update = partial(
            self.context.report,
            tool=call.name,
            counters=progress.counters(0),
            call=context.call_id,
        )
        update(part="tool", content="")
        with self.context.activity.tool(self.toolbox.timeout_of(call.name)):
            result = await self.toolbox.call(call, context, left=self.context.timer.left)
        self.context.tool_called(ToolCalled(tool=call.name, failed=result.failed))
        progress.results[progress.steps, index] = result
        if self.toolbox.effects(call.name) is Effects.ONCE:
            reserving = progress.counters(self._next_cost())
            entry = ResultEntry(progress.steps, index, result)
            await self.context.journal.write(entry, reserving)
        if result.failed:
            update(part="error", content=result.text)
        else:
            update(part="tool_end", content="")
        return result
