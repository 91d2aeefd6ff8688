"""Pools of tokens and money, and the reservations of model calls."""

import sqlalchemy as sa
from alembic import op

from db.types import String, StringList, UtcDateTime

revision = "2026112811"
down_revision = "2026112781"


def upgrade() -> None:
    """Bring the tables to this version."""
    numbers = ("used_tokens", "used_cost", "reserved_tokens", "reserved_cost")
    extras = ("extra_tokens", "extra_cost")
    op.create_table(
        "pools",
        sa.Column("id", String(400), primary_key=True),
        *(
            sa.Column(name, sa.BigInteger, nullable=False, server_default=sa.text("0"))
            for name in (*numbers, *extras)
        ),
        *(sa.Column(name, UtcDateTime) for name in ("extra_until", "warned_at", "exhausted_at")),
        sa.Column("ends_at", UtcDateTime, nullable=False),
    )
    op.create_index("ix_pools_ends_at", "pools", ["ends_at"])
    op.create_table(
        "reservations",
        sa.Column("id", String(32), primary_key=True),
        sa.Column("pools", StringList, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.BigInteger, nullable=False),
        sa.Column("worker_id", String(64), nullable=False),
        sa.Column("work_id", String(36), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
    )
    op.create_index("ix_reservations_worker_id", "reservations", ["worker_id"])
