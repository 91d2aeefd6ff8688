"""On which transport and which database a story is played; and that each begins afresh."""

from zlib import crc32

import pytest

from tests.stories.chats import ChatWay
from tests.stories.on_slack import Way

#: Stories about kills, outages, limits and several processes, and the main one.
BOTH = (
    *("crashes", "inbound_crashes", "yes_crashes", "workers", "outages", "limits", "main_job"),
    *("delivery", "degraded", "indexes", "discord_process", "slack_process", "resuming"),
    *("spending_of_work", "spending_day"),
)
#: Chats that are played on Discord and on both transports of Slack.
BOTH_TRANSPORTS = ("chat_talk", "chat_asking")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play a story on one kind of database, and on one transport of Slack, chosen by its name.

    Each query is tested on both kinds in tests/db, and what the transports of Slack do differently
    in the stories of Slack.
    """
    name = metafunc.function.__name__
    module = metafunc.module.__name__.removeprefix("tests.stories.test_")
    given = [str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize")]
    if "chat_way" in metafunc.fixturenames and not any("chat_way" in each for each in given):
        transports = ["socket", "http"]
        if module not in BOTH_TRANSPORTS:
            transports = [transports[crc32(name.encode()) % 2]]
        metafunc.parametrize("chat_way", ["discord", *transports], indirect=True)
    named = any("database_url" in each for each in given)
    if named or "database_url" not in metafunc.fixturenames:
        return
    kinds = ["sqlite", "postgres"]
    if module not in BOTH:
        kinds = [kinds[crc32(name.encode()) % 2]]
    metafunc.parametrize("database_url", kinds, indirect=True)


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """A database with all tables and no rows, of the kind that the test is played on."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=["socket", "http"])
def way(request: pytest.FixtureRequest) -> Way:
    """Both transports, and with each of them one kind of database: neither knows of the other."""
    databases = {"socket": "sqlite_url", "http": "postgres_url"}
    return Way(request.param, request.getfixturevalue(databases[request.param]))


@pytest.fixture
def chat_way(request: pytest.FixtureRequest) -> ChatWay:
    """A chat by one of its transports, on one kind of database or the other."""
    databases = {"discord": "sqlite_url", "socket": "sqlite_url", "http": "postgres_url"}
    return ChatWay(request.param, request.getfixturevalue(databases[request.param]))
