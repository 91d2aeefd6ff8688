"""Shows what a turn would send to a model, in tokens (pure)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.agent.messages import Message, ToolResults, UserMessage, estimate_tokens
from bot.models.base import ToolDescription
from bot.run_texts import counted
from bot.subagents.requests import Caller
from bot.values import Clock
from db.conversations import StoredMessage
from db.turns import Turn

#: Behind every id of a message.
BEHIND_ALL = "~"
#: Most characters of one's own block that are shown.
MOST_SHOWN = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPreview:
    """The parts of the input that a turn of a user would begin with.

    Attributes:
        prompt: The system prompt.
        tools: The tools.
        history: The stored messages, oldest first, each as the model reads it.
        block: The block that is sent with this user's messages alone, and stored nowhere.
    """

    prompt: str
    tools: Sequence[ToolDescription]
    history: Sequence[tuple[StoredMessage, Sequence[Message]]]
    block: UserMessage

    def lines(self) -> Iterator[str]:
        """Yield the parts with their tokens, the summary and the user's own block, Markdown."""
        prompt = estimate_tokens(self.prompt)
        tools = sum(
            estimate_tokens(f"{each.name}{each.description}{each.schema}") for each in self.tools
        )
        spoken = [shown for item, shown in self.history if item.role != "summary"]
        summaries = [(item, shown) for item, shown in self.history if item.role == "summary"]
        history = sum(map(estimate_tokens, spoken))
        summary = sum(estimate_tokens(shown) for _, shown in summaries)
        block = estimate_tokens(self.block.text)
        yield f"- system prompt: {prompt:,}"
        yield f"- {counted(len(self.tools), 'tool')}: {tools:,}"
        every = [each for shown in spoken for each in shown]
        results = sum(len(each.results) for each in every if isinstance(each, ToolResults))
        images = sum(len(each.images) for each in every if isinstance(each, UserMessage))
        parts = [counted(len(spoken), "message")]
        parts += [counted(results, "result") + " of tools"] * bool(results)
        parts += [counted(images, "image")] * bool(images)
        yield f"- history, {', '.join(parts)}: {history:,}"
        if summaries:
            yield f"- summary of what was said before: {summary:,}"
        yield f"- your own block, which is sent with your messages alone and not kept: {block:,}"
        yield f"- together: {prompt + tools + history + summary + block:,}"
        for item, _ in summaries:
            yield from ("", "**The summary**", *_quoted(item.text))
        yield from ("", "**Your own block**", *_quoted(self.block.text[:MOST_SHOWN].strip()))


def imagined(caller: Caller, conversation_id: str, *, name: str, number: int, now: Clock) -> Turn:
    """Return a turn that a message of a user would begin now.

    Args:
        caller: The user and the place.
        conversation_id: The conversation; empty for none.
        name: The shown name of the user.
        number: The number of the user among the participants; 0 for the first one.
        now: The clock.
    """
    return Turn(
        id="",
        conversation_id=conversation_id,
        user=caller.user,
        user_name=name,
        place=caller.place,
        message_id=BEHIND_ALL,
        status="queued",
        kind="message",
        role=caller.role,
        attempt=0,
        crashes=0,
        reply_message_id="",
        stop_requested_at=None,
        created_at=now(),
        sent_at=None,
        model="",
        shared=caller.shared,
        number=number or 1,
    )


def _quoted(text: str) -> list[str]:
    return [f"> {line}" for line in text.splitlines()]
