"""The sentences about the progress of runs: one at a time in each place."""

import sqlalchemy as sa
from alembic import op

from db.types import String, UtcDateTime

revision = "2026112731"
down_revision = "2026112701"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_table(
        "sentences",
        sa.Column("channel", String(50), nullable=False),
        sa.Column("place_workspace", String(100), nullable=False, server_default=""),
        sa.Column("place_channel", String(255), nullable=False, server_default=""),
        sa.Column("place_thread", String(255), nullable=False, server_default=""),
        sa.Column("begun_at", UtcDateTime, nullable=False),
        sa.Column("posting_until", UtcDateTime),
        sa.PrimaryKeyConstraint(
            "channel", "place_workspace", "place_channel", "place_thread", name="pk_sentences"
        ),
    )
    op.create_index("ix_sentences_begun_at", "sentences", ["begun_at"])
