"""Commands of the console that run in the process of the tests."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def log_as_before() -> Iterator[None]:
    """Leave the log as it was before commands directed it."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        yield
    finally:
        for handler in root.handlers:
            if handler not in before:
                handler.close()
        root.handlers[:] = before
        root.setLevel(level)
