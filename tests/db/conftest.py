"""What tests of the queries share."""

import pytest

from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)
