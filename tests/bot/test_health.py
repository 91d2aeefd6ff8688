"""`python -m bot health` shows the state of a bot from another process."""

from pathlib import Path

from bot.config.model import Config
from bot.health import of_database
from db.settings import DatabaseSettings


async def test_the_state_is_shown_without_a_bot(sqlite_url: str) -> None:
    text = await of_database(Config(database=DatabaseSettings(url=sqlite_url)))

    assert text.startswith("Health\n")
    assert "Process: none is running" in text
    assert "Database: SQLite" in text


async def test_there_may_be_no_database_yet(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/none.db"

    text = await of_database(Config(database=DatabaseSettings(url=url)))

    assert "does not exist yet" in text
