"""An index for the runs of a user that ended lately, which each turn looks for."""

import sqlalchemy as sa
from alembic import op

revision = "2026112901"
down_revision = "2026112893"


def upgrade() -> None:
    """Bring the tables to this version."""
    ended = sa.text("completed_at IS NOT NULL")
    op.create_index(
        "ix_subagent_runs_ended",
        "subagent_runs",
        ["user_id", "completed_at"],
        sqlite_where=ended,
        postgresql_where=ended,
    )
