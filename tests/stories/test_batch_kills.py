"""The results, files and card of a batch survive a process that dies while it sends them."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from bot.values import Json
from db.database import Database, DatabaseSettings
from db.tables import outbox
from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.fakes.patience import eventually
from tests.stories.platform_process import mortal_bot
from tests.stories.stage import Play, call, calls
from tests.stories.test_click_kills import Chat, on_discord, on_slack

pytestmark = pytest.mark.timeout(180)

#: Stores that the text of a result was sent, and that its files are due.
TEXT = "UPDATE outbox SET status=?, maybe_repeated=?, text_delivered"
#: Deletes the files of a run that were sent.
FILES = "DELETE FROM run_files"
ENDED = "2 of 2 ended"
TASKS = ("Dig the north field", "Dig the south field")


def digging() -> Play:
    """Return a play in which one turn starts two runs, each of which sends a file."""

    def run(word: str) -> list[Reply]:
        write = call("file_write", path=f"{word}.csv", text=f"{word},3")
        return [write, call("file_send", paths=[f"{word}.csv"]), Reply(text=f"Dug {word}.")]

    started = calls(*(("sessions_spawn", {"task": task, "label": task}) for task in TASKS))
    return Play(
        main=[started, Reply(text="Started both.")],
        runs={word: run(word) for word in ("north", "south")},
    )


def files(chat: Chat) -> list[str]:
    """Return the names of the files that the bot has sent."""
    found = [each for message, _, _ in chat.said() for each in message.files]
    return [each[0] if isinstance(each, tuple) else each.name for each in found]


def cards(chat: Chat) -> list[str]:
    """Return the messages that show the runs of the batch."""
    return [text for _, text, _ in chat.said() if "2 sub-agents · " in text]


async def delivered(url: str) -> None:
    """Wait until all results and files are delivered."""
    async with Database.open(DatabaseSettings(url=url)) as database:

        async def look() -> bool:
            async with database.snapshot() as tx:
                found = list(await tx.scalars(select(outbox.c.status)))
            return found == ["delivered"] * len(TASKS)

        await eventually(look, "everything to be delivered")


@pytest.mark.parametrize("platform", [on_discord, on_slack])
@pytest.mark.parametrize("dies", [f"before {TEXT}", f"after {TEXT}", f"before {FILES}"])
async def test_results_and_files_of_a_batch_survive_a_kill_in_order_and_repetitions_are_marked(
    sqlite_url: str,
    tmp_path: Path,
    platform: Callable[[], AbstractAsyncContextManager[Chat]],
    dies: str,
) -> None:
    sections: Json = {"workspaces": {"folder": str(tmp_path)}}
    async with platform() as chat, FakeAnthropic(digging()) as model:
        bot = partial(mortal_bot, chat.fake, sqlite_url, model.url, **sections)
        async with bot() as first:
            await chat.connected()
            await first.dies(dies)
            await chat.say("Dig both.")
            await first.ended()
        async with bot():
            await delivered(sqlite_url)
            await chat.until(lambda: len(cards(chat)) == 1 and ENDED in cards(chat)[0], "the end")

        texts = [text for _, text, _ in chat.said()]
        told = [text for text in texts if "Dug north." in text]
        assert all(text.index("Dug north.") < text.index("Dug south.") for text in told)
        names = files(chat)
        assert list(dict.fromkeys(names)) == ["north.csv", "south.csv"]
        repeated = sum("may be a repetition" in text for text in texts)
        # Discord drops what is sent again under the same key.
        again = 1 if platform is on_slack and dies.startswith("before") else 0
        assert repeated == again
        assert len(told) + len(names) == 3 + again
