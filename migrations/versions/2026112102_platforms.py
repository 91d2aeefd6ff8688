"""Files of users, roles of speakers, models of conversations, and messages of run cards."""

import sqlalchemy as sa
from alembic import op

revision = "2026112102"
down_revision = "2026112101"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_table(
        "files",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("message_id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("media_type", sa.String(length=100), server_default="", nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["message_id"], ["messages.id"], name=op.f("fk_files_message_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_files")),
    )
    op.create_index(op.f("ix_files_message_id"), "files", ["message_id"])
    op.create_index(op.f("ix_files_created_at"), "files", ["created_at"])
    for table, column, length, default in (
        ("conversations", "model", 255, ""),
        ("turns", "role", 10, "user"),
        ("subagent_runs", "card_message_id", 255, ""),
    ):
        op.add_column(
            table,
            sa.Column(column, sa.String(length=length), server_default=default, nullable=False),
        )
