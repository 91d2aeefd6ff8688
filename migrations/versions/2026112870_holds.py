"""Legal holds, and what users under one have erased meanwhile."""

import sqlalchemy as sa
from alembic import op

from db.types import JsonDocument, String, Text, UserKey, UtcDateTime

revision = "2026112870"
down_revision = "2026112864"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_table(
        "holds",
        sa.Column("id", String(32), primary_key=True),
        sa.Column("user_id", UserKey, nullable=False),
        sa.Column("shown", String(255), nullable=False),
        sa.Column("name", String(100), nullable=False),
        sa.Column("held_by", UserKey, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.UniqueConstraint("user_id", "name", name="uq_holds_user_id_name"),
    )
    op.create_table(
        "held_copies",
        sa.Column("id", String(32), primary_key=True),
        sa.Column("user_id", UserKey, nullable=False),
        sa.Column("message_id", String(32), nullable=False),
        sa.Column("conversation_id", String(32), nullable=False),
        sa.Column("reference", String(255), nullable=False, server_default=""),
        sa.Column("text", Text, nullable=False, server_default=""),
        sa.Column("quoted", JsonDocument),
        sa.Column("name", String(255), nullable=False, server_default=""),
        sa.Column("data", sa.LargeBinary),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("erased_at", UtcDateTime, nullable=False),
    )
    op.create_index("ix_held_copies_user_id", "held_copies", ["user_id"])
