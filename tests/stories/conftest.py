"""On which transport and which database a story of Slack is played; and that each begins afresh."""

import sys
from collections.abc import Iterator

import pytest

from tests.stories.on_slack import Way


@pytest.fixture(params=["socket", "http"])
def way(request: pytest.FixtureRequest) -> Way:
    """Both transports, and with each of them one kind of database: neither knows of the other."""
    databases = {"socket": "sqlite_url", "http": "postgres_url"}
    return Way(request.param, request.getfixturevalue(databases[request.param]))


@pytest.fixture(autouse=True)
def _no_engine_is_left() -> Iterator[None]:
    """End the engine of a story that broke off: there is one in a process, and others follow."""
    yield
    if "dbos" in sys.modules:
        from dbos import DBOS

        DBOS.destroy(destroy_registry=True)
