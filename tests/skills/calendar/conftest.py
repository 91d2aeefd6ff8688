"""A real CalDAV server for each test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.radicale_server import Radicale, radicale_server


@pytest.fixture
def radicale(tmp_path: Path) -> Iterator[Radicale]:
    with radicale_server(tmp_path) as server:
        yield server
