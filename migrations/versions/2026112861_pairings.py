"""Accounts are admitted to direct messages by a code that an admin confirms."""

import sqlalchemy as sa
from alembic import op

from db.types import String, UserKey, UtcDateTime

revision = "2026112861"
down_revision = "2026112852"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_table(
        "pairings",
        sa.Column("user_id", UserKey, sa.ForeignKey("users.id"), primary_key=True),
        sa.Column("code", String(16), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("confirmed_at", UtcDateTime),
        sa.Column("confirmed_by", String(255), nullable=False, server_default=""),
        sa.UniqueConstraint("code", name="uq_pairings_code"),
    )
