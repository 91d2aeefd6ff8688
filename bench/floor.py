"""The floor: a bare loop on the anthropic SDK that stores nothing."""

import asyncio
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2

from bench.server import CALLS
from bench.stage import KEY, Server, meaning, task
from bot.models.client import KEPT_CONNECTION_SECONDS, MAX_CONNECTIONS
from bot.values import Json

if TYPE_CHECKING:
    from anthropic.types import MessageParam


Client = anthropic.AsyncAnthropic


def open_client(server: Server, *, aiohttp: bool) -> Client:
    """Return a client for all runs: as the SDK makes it, or on aiohttp with the bot's limits."""
    given: dict[str, Any] = {}
    if aiohttp:
        limits = httpx2.Limits(
            max_connections=MAX_CONNECTIONS, keepalive_expiry=KEPT_CONNECTION_SECONDS
        )
        given["http_client"] = anthropic.DefaultAioHttpClient(limits=limits)
    return Client(api_key=KEY, base_url=server.url, max_retries=0, **given)


async def run(client: Client, number: int, sent: Json) -> str:
    """Do what a run does: ask, call the tool, and repeat until there is a text.

    Args:
        client: The client.
        number: The number of the run.
        sent: The body of a request of the bot: its tools and its prompt are sent here too.
    """
    messages: list[MessageParam] = [{"role": "user", "content": task(number)}]
    for made in range(CALLS):
        answer = await client.messages.create(
            model="claude-haiku-5-5",
            max_tokens=4096,
            messages=messages,
            tools=sent["tools"],
            system=sent["system"],
        )
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls and made == CALLS - 1:
            return "".join(block.text for block in answer.content if block.type == "text")
        call = calls[0]
        result = meaning(str(call.input["word"]))
        messages.append(
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": call.id, "content": result}],
            }
        )
    raise RuntimeError("The fake server did not come to an end.")


async def run_many(client: Client, server: Server, count: int, sent: Json) -> None:
    """Do so many runs, all of them at once; `sent` as in `run`."""
    await server.hold()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(run(client, number, sent))
        await server.full(count)
        await server.go()
