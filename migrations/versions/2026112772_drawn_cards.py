"""A run whose card does not show its final state is found again."""

import sqlalchemy as sa
from alembic import op

revision = "2026112772"
down_revision = "2026112771"


def upgrade() -> None:
    """Bring the tables to this version."""
    column: sa.Column[bool] = sa.Column(
        "card_drawn", sa.Boolean, nullable=False, server_default=sa.text("false")
    )
    op.add_column("subagent_runs", column)
    op.execute("UPDATE subagent_runs SET card_drawn = true WHERE completed_at IS NOT NULL")
    op.create_index(
        "ix_subagent_runs_not_drawn",
        "subagent_runs",
        ["completed_at"],
        sqlite_where=sa.text("card_message_id <> '' AND card_drawn = 0"),
        postgresql_where=sa.text("card_message_id <> '' AND NOT card_drawn"),
    )
