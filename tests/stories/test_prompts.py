"""What every request carries stays short: prompts, guides and tools, each with its bound."""

from bot import prompt_tokens
from tests.stories.prompts import MAIN, for_check, measured, table

MOST_OF_ALL = {MAIN: 5_400, "general": 2_950}
MOST_OF_AN_AGENT = 1_700
MOST_OF_A_TOOL = 170
#: What a model may say of a run is a lot.
MOST_OF_THESE = {"sessions_spawn": 450, "schedule_task": 215}
MOST_OF_A_GUIDE = 190


async def test_no_prompt_no_tool_and_no_guide_is_longer_than_its_bound(database_url: str) -> None:
    found = await measured(database_url)

    tools = {name: size for each in found.prompts.values() for name, size in each.tools.items()}
    too_long = [
        *(
            name
            for name, prompt in found.prompts.items()
            if prompt.total > MOST_OF_ALL.get(name, MOST_OF_AN_AGENT)
        ),
        *(name for name, size in tools.items() if size > MOST_OF_THESE.get(name, MOST_OF_A_TOOL)),
        *(f"guide of {name}" for name, size in found.guides.items() if size > MOST_OF_A_GUIDE),
    ]
    assert not too_long, "\n".join([f"Too long: {', '.join(too_long)}", *table(found)])
    assert {MAIN, "general", "researcher"} <= set(found.prompts)
    assert {"web_search", "sessions_spawn", "whiteboard_read"} <= set(tools)


async def test_check_adds_up_the_tokens_that_requests_carry(sqlite_url: str) -> None:
    """`python -m tests.stories.prompts --write` makes the file."""
    found = await measured(sqlite_url)

    written = prompt_tokens.FILE.read_text("utf-8").splitlines()
    if "shell" not in found.prompts[MAIN].tools:  # this machine has no sandbox
        written = [line for line in written if not line.startswith("shell = ")]
    assert for_check(found).splitlines() == written
