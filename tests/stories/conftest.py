"""On which transport and which database a story of Slack is played."""

import pytest

from tests.stories.on_slack import Way


@pytest.fixture(params=["socket", "http"])
def way(request: pytest.FixtureRequest) -> Way:
    """Both transports, and with each of them one kind of database: neither knows of the other."""
    databases = {"socket": "sqlite_url", "http": "postgres_url"}
    return Way(request.param, request.getfixturevalue(databases[request.param]))
