"""`python -m bench.path`: count the functions between a message and its run's announcement.

Plays one story on Discord, with its real client, and in the terminal: Alice writes, the main agent
spawns a run, the run calls a tool and ends, its result is announced. Functions of the periodic
duties and of opening the bot are not counted.
"""

import asyncio
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import CodeType, FrameType

from migrations.run import upgrade
from tests.fakes.anthropic_server import Reply
from tests.house import INSIDE, ROOT
from tests.stories.at_terminal import at_terminal
from tests.stories.on_discord import new_server, on_discord
from tests.stories.stage import Play, call

#: Names of functions that no one wrote to be read.
_NO_FUNCTIONS = {"<module>", "<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"}


class Trace:
    """The functions that were called, by file."""

    def __init__(self) -> None:
        self.functions: dict[str, set[str]] = defaultdict(set)
        self._tops = tuple(f"{ROOT / top}/" for top in INSIDE)

    def start(self) -> None:
        """Record the calls of all threads from now on."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def stop(self) -> None:
        """Record no more calls."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self._tops) and not _is_upkeep():
            self._record(code)

    def _record(self, code: CodeType) -> None:
        if code.co_name not in _NO_FUNCTIONS:
            name = Path(code.co_filename).relative_to(ROOT).as_posix()
            self.functions[name].add(code.co_qualname)


def _is_upkeep() -> bool:
    """Return True if a periodic duty runs in this thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.get_name().startswith("upkeep")


async def on_the_platform(url: str, trace: Trace, play: Play) -> None:
    """Play the story on Discord."""
    async with new_server() as server, on_discord(url, server, play) as it:
        trace.start()
        asked = await it.discord.say(server.alice, server.channel, "Dig.", mention=True)
        thread = await it.thread_of(asked)
        await it.reads(thread, "Dug.")
        trace.stop()


async def in_the_terminal(url: str, trace: Trace, play: Play) -> None:
    """Play the story in a terminal chat."""
    async with at_terminal(url, play) as desk:
        trace.start()
        desk.send("Dig.")
        await desk.shows("Dug.")
        trace.stop()


async def traced(story: Callable[[str, Trace, Play], Awaitable[None]]) -> Trace:
    """Play a story, and return the functions from the message to the announcement."""
    trace = Trace()
    play = Play(
        main=[call("sessions_spawn", task="Dig", label="digging"), Reply(text="Started it.")],
        runs={"Dig": [call("current_time"), Reply(text="Dug.")]},
    )
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/retinue.db"
        await upgrade(url)
        await story(url, trace, play)
    return trace


def main() -> None:
    """Print the counts, and with `--list` the functions."""
    for place, story in (("Discord", on_the_platform), ("the terminal", in_the_terminal)):
        trace = asyncio.run(traced(story))
        count = sum(len(names) for names in trace.functions.values())
        print(f"{place}: {count} functions in {len(trace.functions)} files")
        if "--list" in sys.argv[1:]:
            for file, names in sorted(trace.functions.items()):
                print(f"{file}: {', '.join(sorted(names))}")


if __name__ == "__main__":
    main()
