"""The newest messages of a conversation are found by an index."""

from alembic import op

revision = "2026112771"
down_revision = "2026112761"


def upgrade() -> None:
    """Bring the tables to this version."""
    name = "ix_messages_conversation_id_created_at"
    op.create_index(name, "messages", ["conversation_id", "created_at"])
