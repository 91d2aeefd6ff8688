"""The fake provider as a program of its own, as load tests use it."""

import asyncio
import sys
from contextlib import aclosing

from bot.agent.messages import Message, ToolResult, ToolResults, UserMessage
from bot.models.anthropic import AnthropicSettings, anthropic_model
from bot.models.base import ModelRequest, ToolDescription

SCHEMA = {
    "type": "object",
    "properties": {"words": {"type": "string"}, "most": {"type": "integer"}},
    "required": ["words"],
}


async def test_it_asks_for_five_calls_and_then_ends() -> None:
    command = (sys.executable, "-m", "tests.fakes.anthropic_server", "--latency-ms", "1")
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            url = (await process.stdout.readline()).decode().strip()
            calls = await work(url)
    finally:
        process.terminate()
        await process.wait()

    assert calls == [{"words": f"something {number}"} for number in range(5)]


async def work(url: str) -> list[dict[str, object]]:
    """Work with the provider until it asks for no more calls; return their arguments."""
    messages: list[Message] = [UserMessage("Work.")]
    calls: list[dict[str, object]] = []
    async with aclosing(
        anthropic_model(AnthropicSettings(api_key="sk-any", base_url=url))
    ) as model:
        while True:
            tools = (ToolDescription("look", "Look.", SCHEMA),)
            said = tuple(messages)
            answer = await model.ask(ModelRequest(model="m", prompt="", messages=said, tools=tools))
            if not answer.calls:
                return calls
            calls += [call.arguments for call in answer.calls]
            results = tuple(ToolResult(call.id, "Found.") for call in answer.calls)
            messages += [answer, ToolResults(results)]
