"""The floor: a bare loop on the anthropic SDK that stores nothing, in a process of its own."""

from typing import TYPE_CHECKING, Any

import anthropic

from bench.batches import Given, Run, serve
from bench.server import CALLS
from bench.work import MAX_TOKENS, MODEL, PATIENCE_SECONDS, meaning

if TYPE_CHECKING:
    from anthropic.types import MessageParam


def open_client(given: Given) -> anthropic.AsyncAnthropic:
    """Return a client for all runs: as the SDK makes it, or on aiohttp with the bot's limits."""
    options: dict[str, Any] = {}
    if given.aiohttp:
        import httpx2

        from bot.models.client import KEPT_CONNECTION_SECONDS, MAX_CONNECTIONS

        limits = httpx2.Limits(
            max_connections=MAX_CONNECTIONS, keepalive_expiry=KEPT_CONNECTION_SECONDS
        )
        options["http_client"] = anthropic.DefaultAioHttpClient(limits=limits)
    return anthropic.AsyncAnthropic(
        api_key="sk-fake", base_url=given.url, max_retries=0, timeout=PATIENCE_SECONDS, **options
    )


def opened(given: Given) -> Run:
    """Return the function that does what a run does: ask, call the tool, and repeat."""
    client = open_client(given)
    system, tools = given.sent["system"], given.sent["tools"]

    async def run(text: str) -> str:
        messages: list[MessageParam] = [{"role": "user", "content": text}]
        for _ in range(CALLS):
            answer = await client.messages.create(
                model=MODEL,
                max_tokens=MAX_TOKENS,
                messages=messages,
                tools=tools,
                system=system,
            )
            messages.append({"role": "assistant", "content": answer.content})
            calls = [block for block in answer.content if block.type == "tool_use"]
            if not calls:
                break
            result = meaning(str(calls[0].input["word"]))
            messages.append(
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": calls[0].id, "content": result}
                    ],
                }
            )
        return "".join(block.text for block in answer.content if block.type == "text")

    return run


if __name__ == "__main__":
    serve(opened)
