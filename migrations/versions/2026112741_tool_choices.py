"""The tools and agents that requests of a place carry, and how often they are used."""

import sqlalchemy as sa
from alembic import op

from db.types import String, StringList, UtcDateTime

revision = "2026112741"
down_revision = "2026112731"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_table(
        "place_choices",
        sa.Column("place_key", String(700), nullable=False),
        sa.Column("day", UtcDateTime, nullable=False),
        sa.Column("tools", StringList, nullable=False),
        sa.Column("agents", StringList, nullable=False),
        sa.Column("known", StringList, nullable=False),
        sa.PrimaryKeyConstraint("place_key", name="pk_place_choices"),
    )
    op.create_index("ix_place_choices_day", "place_choices", ["day"])
    op.create_table(
        "tool_uses",
        sa.Column("place_key", String(700), nullable=False),
        sa.Column("name", String(100), nullable=False),
        sa.Column("day", UtcDateTime, nullable=False),
        sa.Column("uses", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("place_key", "name", "day", name="pk_tool_uses"),
    )
    op.create_index("ix_tool_uses_day", "tool_uses", ["day"])
