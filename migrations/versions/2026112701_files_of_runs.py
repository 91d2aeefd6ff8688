"""Files that runs send, announcements whose text precedes them, and media in steps."""

import sqlalchemy as sa
from alembic import op

from db.types import String, UtcDateTime, UuidText

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
    op.create_table(
        "step_media",
        sa.Column("work_id", String(36), nullable=False),
        sa.Column("digest", String(64), nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("work_id", "digest", name="pk_step_media"),
    )
    op.create_index("ix_step_media_created_at", "step_media", ["created_at"])
    op.add_column(
        "outbox",
        sa.Column("text_delivered", sa.Boolean, nullable=False, server_default=sa.text("false")),
    )
