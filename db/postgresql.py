"""Opens connections to PostgreSQL."""

from sqlalchemy import event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from db.trouble import is_read_only
from db.types import to_json

#: PostgreSQL ends a transaction that is idle for this long, and so releases the locks of a frozen
#: process.
IDLE_SECONDS = 10


def open_engine(
    url: URL, *, connections: int, wait_seconds: float, seconds: float = 30
) -> AsyncEngine:
    """Return a pool of connections to PostgreSQL.

    Args:
        url: The URL of the database.
        connections: Most connections that are open at once.
        wait_seconds: Longest wait for a connection.
        seconds: Timeout of a statement.
    """
    engine = create_async_engine(
        url.set(drivername="postgresql+asyncpg"),
        pool_size=connections,
        max_overflow=0,
        pool_timeout=wait_seconds,
        pool_pre_ping=True,
        hide_parameters=True,
        connect_args={"timeout": 5, "command_timeout": seconds},
        json_serializer=to_json,
    )
    limit = f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'"

    @event.listens_for(engine.sync_engine, "connect")
    def _end_idle_transactions(connection: DBAPIConnection, _: object) -> None:
        cursor = connection.cursor()
        cursor.execute(limit)
        cursor.close()
        connection.commit()

    @event.listens_for(engine.sync_engine, "handle_error")
    def _leave_standby(context: ExceptionContext) -> None:
        # After a failover the server of an open connection may have become a standby.
        if is_read_only(context.original_exception):
            context.is_disconnect = True

    return engine
