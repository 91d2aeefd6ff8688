"""Databases before any upgrade."""

from pathlib import Path

import pytest


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'new' / 'retinue.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest) -> str:
    """A database without any table, of each kind."""
    url: str = request.getfixturevalue(f"empty_{request.param}_url")
    return url
