"""An index by which codes that nobody has confirmed are deleted."""

from alembic import op

revision = "2026112864"
down_revision = "2026112863"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_index("ix_pairings_created_at", "pairings", ["created_at"])
