"""Continues runs that did not complete: a new run begins with the transcript of the old one."""

from collections.abc import Sequence
from dataclasses import replace

from bot.agent.context import noted
from bot.agent.journal import entries_of
from bot.agent.messages import (
    Answer,
    StopReason,
    ToolCall,
    ToolResult,
    ToolResults,
    from_json,
    to_json,
)
from bot.agent.progress import Progress
from bot.agent.sanitizer import for_model
from bot.errors import BadRequestError
from bot.run_texts import status_text
from bot.subagents.requests import FOREIGN, PRIVATE
from bot.subagents.shown_calls import question_id
from bot.values import Json, RunStatus, derived_run_id, short
from db import run_messages, run_questions, runs, steps
from db.database import Transaction
from db.runs import Run

#: The most characters of the result of a nested run.
RESULT_CHARACTERS = 4_000

NOTE = (
    "An earlier run of this task ended: {words}. This run continues it. What the earlier run did "
    "is written above: a call with a result is done, so do not make it again. Time, tokens and "
    "tool calls are counted anew. Finish the task, and report on all of it, with what the earlier "
    "run found."
)
NOTHING_DONE = "An earlier run of this task ended before it did anything: {words}."
MAY_HAVE_RUN = (
    "{tool} may have run: the earlier run ended before its result was stored. If it only reads, "
    "call it again. If it changes something, check what it changed first, and tell the user."
)
NOT_CALLED = "{tool} was not called: the earlier run ended while this call waited for a yes."
UNREAD = "A message from the user, which the earlier run did not read:\n{text}"
STARTED = "Runs that the earlier run started. You cannot reach them:\n{runs}"


def continuation_id(run_id: str) -> str:
    """Return the id of the run that continues a run: at most one run does."""
    return derived_run_id(run_id, "resume")


def check(run: Run) -> None:
    """Refuse to continue an unfinished or completed run.

    Raises:
        BadRequestError: The run cannot be continued; the text gives the reason and an alternative.
    """
    if run.status.resumable:
        return
    named = f"“{run.label}” ({short(run.id)})"
    if run.status is RunStatus.COMPLETED:
        raise BadRequestError(
            f"{named} is completed: there is nothing to resume. `/subagents read {short(run.id)}` "
            "shows its result; ask for a new run if you want more."
        )
    raise BadRequestError(
        f"{named} is not over: {status_text(run.status).words}. Only a run that failed, was "
        "stopped or reached a limit can be resumed."
    )


async def carried(tx: Transaction, run: Run) -> tuple[Json, Json]:
    """Return the transcript that the continuation of a run takes over, and its metadata.

    The transcript is a document for the steps table. The metadata tells if it holds content that
    neither the user nor the bot wrote, and if it holds private material.

    Raises:
        BadRequestError: The steps are no longer stored, or the model refused the task.
    """
    rows = await steps.load(tx, run.id)
    if (rows and rows[0][0] != 0) or (not rows and run.tool_call_count):
        raise BadRequestError(
            f"What “{run.label}” ({short(run.id)}) did is not stored any more, so it cannot be "
            "resumed. Start a new run."
        )
    progress = Progress()
    progress.begin([], entries_of(rows))
    if progress.halt is not None and progress.halt.refused:
        raise BadRequestError(
            f"The model refused to go on with “{run.label}” ({short(run.id)}). Start a new run "
            "with another task."
        )
    before = await steps.carried(tx, run.id) or {"messages": []}
    messages = [*map(from_json, before["messages"]), *progress.messages]
    if messages and isinstance(messages[-1], Answer) and messages[-1].stop is StopReason.PAUSE:
        # The provider's blocks of an unfinished answer are valid only as an unchanged continuation.
        messages[-1] = replace(messages[-1], text=messages[-1].text or "…", native=None)
    if calls := progress.open_calls():
        messages.append(ToolResults(await _results(tx, run, progress, calls)))
    words = status_text(run.status).words
    notes = [(NOTE if messages else NOTHING_DONE).format(words=words)]
    notes += [UNREAD.format(text=text) for _, text in await run_messages.unread(tx, run.id)]
    started = await runs.started_by(tx, run.id)
    if started:
        notes.append(STARTED.format(runs="\n".join(map(_line, reversed(started)))))
    last = messages.pop() if messages and isinstance(messages[-1], ToolResults) else None
    messages.append(noted(last, "\n\n".join(notes)))
    results = [each for one in messages if isinstance(one, ToolResults) for each in one.results]
    flags = {
        FOREIGN: bool(started) or any(result.foreign for result in results),
        PRIVATE: any(result.private for result in results),
    }
    document = {"messages": [to_json(message) for message in messages]}
    return document, {name: True for name, is_set in flags.items() if is_set}


async def _results(
    tx: Transaction, run: Run, progress: Progress, calls: Sequence[ToolCall]
) -> tuple[ToolResult, ...]:
    """Return results for the calls of a run's last answer: stored ones, or a note on each call."""
    # The results that the run had received when it ended and that its model never read.
    last = [from_json(document) for document in (await runs.transcript(tx, run.id))[-1:]]
    unread = [each for m in last if isinstance(m, ToolResults) for each in m.results]
    kept = {result.call_id: result for result in unread}
    results = []
    for index, call in enumerate(calls):
        result = progress.results.get((progress.steps, index)) or kept.get(call.id)
        if result is None:
            asked = await run_questions.get(tx, question_id(run.id, f"{progress.steps}.{index}"))
            waited = asked is not None and asked.used_at is None
            text = NOT_CALLED if waited else MAY_HAVE_RUN
            result = ToolResult(call.id, text.format(tool=call.name), failed=True)
        results.append(result)
    return tuple(results)


def _line(run: Run) -> str:
    """Return the line about a nested run for the model, with its result if it has one."""
    words = status_text(run.status, degraded=run.degraded).words
    line = f"- {short(run.id)} “{run.label}”: {words}"
    if not run.result:
        return line
    words = status_text(run.status).words
    result = for_model(run.result, run_id=run.id, status=words, limit=RESULT_CHARACTERS)
    return f"{line}\n{result}"
