"""Tables and columns for recovery, foreign content, undo and fair limits."""

from alembic import op

revision = "2026112201"
down_revision = "2026112107"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_index(
        "ix_conversations_place",
        "conversations",
        ["channel", "place_workspace", "place_channel", "place_thread", "user_id", "id"],
    )
