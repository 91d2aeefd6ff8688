"""Restores the tool calls of earlier turns, with their results, for the history."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from bot.agent.context import shorten
from bot.agent.journal import entries_of
from bot.agent.messages import Answer, Message, ToolResult, ToolResults
from bot.agent.protocols import AnswerEntry
from bot.agent.tool_search import meant
from bot.values import Json
from skills.base import Audience, Tool

#: Characters of one result in the history.
CHARACTERS = 2_000
PERSONAL = "[This result was for one user alone, and is not kept in a conversation of several.]"


def calls_of(turn_id: str, rows: Sequence[tuple[int, str, Json]]) -> list[Message]:
    """Return the calls of a turn and their results, without its words, which a message holds.

    The calls get ids that are unique in the conversation: some providers number them anew for each
    answer, and others refuse an id that comes twice.

    Args:
        turn_id: The id of the turn.
        rows: The steps of the turn.
    """
    entries = [each for each in entries_of(rows) if isinstance(each, AnswerEntry)]
    found: list[Message] = []
    for entry, after in pairwise(entries):
        calls, received = entry.answer.calls, after.received
        # A turn that was interrupted has calls without results.
        if not calls or not isinstance(received, ToolResults):
            continue
        results = {each.call_id: each for each in received.results}
        if not all(call.id in results for call in calls):
            continue
        ids = {call.id: f"{turn_id}_{len(found)}_{number}" for number, call in enumerate(calls)}
        named = tuple(replace(call, id=ids[call.id]) for call in calls)
        kept = tuple(replace(results[call.id], call_id=ids[call.id], found=()) for call in calls)
        found += [Answer("", named), shorten(ToolResults(kept), CHARACTERS)]
    return found


def for_place(made: Sequence[Message], shown: Mapping[str, Tool]) -> list[Message]:
    """Return calls and results without those that not everyone in a place may read.

    Args:
        made: The calls and results.
        shown: The tools whose results everyone in the place may read, by name: of other calls,
            arguments and results are left out.
    """
    hidden = {
        call.id
        for message in made
        if isinstance(message, Answer)
        for call in message.calls
        if (tool := shown.get(meant(call).name)) is None
        or tool.read_by(meant(call).arguments) is not Audience.PLACE
    }
    kept: list[Message] = []
    for message in made:
        if isinstance(message, Answer):
            calls = (
                replace(call, arguments={}, malformed="") if call.id in hidden else call
                for call in message.calls
            )
            kept.append(replace(message, calls=tuple(calls)))
        elif isinstance(message, ToolResults):
            results = (
                ToolResult(each.call_id, PERSONAL) if each.call_id in hidden else each
                for each in message.results
            )
            kept.append(replace(message, results=tuple(results)))
    return kept
