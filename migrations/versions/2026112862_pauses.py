"""Pauses of the whole bot, of servers, channels and users."""

import sqlalchemy as sa
from alembic import op

from db.schema.base import place
from db.types import String, UserKey, UtcDateTime

revision = "2026112862"
down_revision = "2026112861"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_table(
        "pauses",
        sa.Column("id", String(700), primary_key=True),
        sa.Column("user_id", UserKey, nullable=False, server_default=""),
        *place(),
        sa.Column("killed", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("paused_by", UserKey, nullable=False),
        sa.Column("by_operator", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("created_at", UtcDateTime, nullable=False),
    )
