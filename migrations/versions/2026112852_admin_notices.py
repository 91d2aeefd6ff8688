"""Notices to admins are stored, so that each is sent once."""

import sqlalchemy as sa
from alembic import op

from db.schema.base import place
from db.types import JsonDocument, String, Text, UserKey, UtcDateTime

revision = "2026112852"
down_revision = "2026112851"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_table(
        "admin_notices",
        sa.Column("id", String(32), primary_key=True),
        sa.Column("key", String(255), nullable=False),
        sa.Column("text", Text, nullable=False),
        *place(),
        sa.Column("buttons", JsonDocument, nullable=False, server_default=sa.text("'[]'")),
        sa.Column("user_id", UserKey, nullable=False, server_default=""),
        sa.Column("chosen", String(100), nullable=False, server_default=""),
        sa.Column("created_at", UtcDateTime, nullable=False),
    )
    op.create_index("ix_admin_notices_created_at", "admin_notices", ["created_at"])
