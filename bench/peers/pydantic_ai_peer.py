"""pydantic-ai: its agent with the tools as schemas; it stores nothing."""

from anthropic import AsyncAnthropic
from pydantic_ai import Agent, Tool
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from bench.batches import Given, Run, serve
from bench.work import MAX_TOKENS, MODEL, PATIENCE_SECONDS, meaning


async def look_up(word: str) -> str:
    """Look a word up."""
    return meaning(word)


def opened(given: Given) -> Run:
    """Return the function that does one run."""
    client = AsyncAnthropic(
        base_url=given.url, api_key="sk-fake", max_retries=0, timeout=PATIENCE_SECONDS
    )
    tools = [
        Tool.from_schema(look_up, each["name"], each["description"], each["input_schema"])
        for each in given.tools
    ]
    agent = Agent(
        AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client)),
        instructions=given.system,
        tools=tools,
        model_settings={"max_tokens": MAX_TOKENS},
    )

    async def run(text: str) -> str:
        return str((await agent.run(text)).output)

    return run


if __name__ == "__main__":
    serve(opened)
