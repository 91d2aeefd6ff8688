"""Files that runs send with their results, and announcements whose text precedes them."""

import sqlalchemy as sa
from alembic import op

from db.types import String, UuidText

revision = "2026112701"
down_revision = "2026112602"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_table(
        "run_files",
        sa.Column(
            "run_id",
            UuidText,
            sa.ForeignKey("subagent_runs.id", ondelete="CASCADE", name="fk_run_files_run_id"),
            nullable=False,
        ),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("name", String(255), nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_run_files"),
    )
    op.add_column(
        "outbox",
        sa.Column("text_delivered", sa.Boolean, nullable=False, server_default=sa.text("false")),
    )
