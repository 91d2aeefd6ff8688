"""openai-agents: its agent on its model for Chat Completions, without tracing or a session."""

import json
from typing import Any

from openai import AsyncOpenAI

from agents import (
    Agent,
    FunctionTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    set_tracing_disabled,
)
from bench.batches import Given, Run, serve
from bench.work import MAX_TOKENS, MODEL, PATIENCE_SECONDS, meaning


async def look_up(_: Any, arguments: str) -> str:
    """Look a word up."""
    return meaning(json.loads(arguments)["word"])


def opened(given: Given) -> Run:
    """Return the function that does one run."""
    set_tracing_disabled(disabled=True)
    client = AsyncOpenAI(
        base_url=f"{given.url}/v1", api_key="sk-fake", max_retries=0, timeout=PATIENCE_SECONDS
    )
    tools = [
        FunctionTool(
            name=each["name"],
            description=each["description"],
            params_json_schema=each["input_schema"],
            on_invoke_tool=look_up,
            strict_json_schema=False,
        )
        for each in given.tools
    ]
    agent = Agent(
        name="reader",
        instructions=given.system,
        model=OpenAIChatCompletionsModel(MODEL, client),
        model_settings=ModelSettings(max_tokens=MAX_TOKENS),
        tools=list(tools),
    )

    async def run(text: str) -> str:
        return str((await Runner.run(agent, text)).final_output)

    return run


if __name__ == "__main__":
    serve(opened)
