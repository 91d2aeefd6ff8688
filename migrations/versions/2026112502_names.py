"""Plain names for the columns of heartbeats and of the times of messages."""

from alembic import op

revision = "2026112502"
down_revision = "2026112501"

RENAMED = (
    ("workers", "beat_at", "heartbeat_at"),
    ("listeners", "heard_at", "last_event_at"),
    ("turns", "said_at", "sent_at"),
)


def upgrade() -> None:
    """Bring the tables to this version."""
    for table, old, new in RENAMED:
        # Both databases rename in place; batch mode would rebuild the table on SQLite.
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
