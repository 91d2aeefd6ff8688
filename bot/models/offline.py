"""A demo model that answers by a few rules, without a language model and without a key."""

import asyncio
import html
import re
from collections.abc import Sequence

from pydantic import Field

from bot.agent.messages import (
    Answer,
    Message,
    StopReason,
    ToolResults,
    Usage,
    UserMessage,
    estimate_tokens,
)
from bot.models import offline_rules, offline_run
from bot.models.base import OnText, Question
from bot.models.client import estimated_input
from bot.models.offline_moves import Move, call_for, calls_so_far, with_files
from bot.values import Settings

MODEL = "offline-demo"
PIECES = 6

_FILE = re.compile(r'<user_file name="([^"]*)"')


class OfflineSettings(Settings):
    """Everything under `models.offline:`."""

    pace_seconds: float = Field(
        0.5,
        ge=0,
        le=60,
        description="How long the demo takes for a step, so that one sees it; each look of a "
        "run at its notes takes ten times as long.",
    )


class OfflineModel:
    """Answers by rules, which get the prompt, the messages and the tools like a language model."""

    provider = "offline"

    def __init__(self, *, pace_seconds: float = 0.5) -> None:
        self._pace_seconds = pace_seconds

    async def ask(self, question: Question, on_text: OnText | None = None) -> Answer:
        """Return the rules' answer to the question; see `bot.models.base.Model`."""
        move = decide(question)
        await self._speak(move, on_text)
        tools = {tool.name: tool for tool in question.tools}
        first = calls_so_far(question.messages) + 1
        calls = tuple(
            call_for(wish, tools[wish.tool], number)
            for number, wish in enumerate(move.wishes, start=first)
        )
        written = estimate_tokens(move.text + "".join(str(call) for call in calls))
        return Answer(
            text=move.text,
            calls=calls,
            stop=StopReason.TOOL_CALLS if calls else StopReason.END,
            usage=Usage(estimated_input(question), written),
            model=question.model,
        )

    async def _speak(self, move: Move, on_text: OnText | None) -> None:
        """Wait for the duration of a step and stream the text meanwhile."""
        text, seconds = move.text, self._pace_seconds * move.paces
        if on_text is None or not text:
            await asyncio.sleep(seconds)
            return
        size = len(text) // PIECES + 1
        for end in range(size, len(text) + size, size):
            await asyncio.sleep(seconds / PIECES)
            on_text(text[:end])


def decide(question: Question) -> Move:
    """Return the answer to a question by the rules of the main agent or of a run."""
    tools = frozenset(tool.name for tool in question.tools)
    messages = question.messages
    if "You are a subagent" in question.prompt:
        return offline_run.move(messages, tools, tools_allowed=question.tools_allowed)
    if messages and isinstance(messages[-1], ToolResults):
        asked = [message for message in messages if isinstance(message, Answer)][-1:]
        calls = asked[0].calls if asked else ()
        return offline_rules.reply(calls, messages[-1].results)
    usable = tools if question.tools_allowed else frozenset()
    return with_files(file_names(messages), offline_rules.move(newest_words(messages), usable))


def newest_words(messages: Sequence[Message]) -> str:
    """Return the text of the last user message, without the situation and the files before it."""
    return _apart(messages)[1].rpartition("</situation>")[2].strip()


def file_names(messages: Sequence[Message]) -> list[str]:
    """Return the names of the files in the last user message."""
    return [html.unescape(name) for name in _FILE.findall(_apart(messages)[0])]


def _apart(messages: Sequence[Message]) -> tuple[str, str]:
    """Return the files and the text of the last user message."""
    texts = [message.text for message in messages if isinstance(message, UserMessage)]
    files, end, words = (texts[-1] if texts else "").rpartition("</user_file>")
    return files + end, words
