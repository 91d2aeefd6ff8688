"""A key-value store for skills that have no tables."""

import sqlalchemy as sa
from alembic import op

from db.types import JsonDocument, String, UtcDateTime

revision = "2026112501"
down_revision = "2026112201"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_table(
        "skill_data",
        sa.Column("skill", String(64), primary_key=True),
        sa.Column("key", String(200), primary_key=True),
        sa.Column("value", JsonDocument),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("updated_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("skill", "key", name="pk_skill_data"),
    )
