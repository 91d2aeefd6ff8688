"""The questions of runs to their owners."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "2026112107"
down_revision = "2026112105"


def upgrade() -> None:
    """Bring the tables to this version."""
    for column in ("shown_at", "done_at"):
        op.add_column("approvals", sa.Column(column, sa.DateTime(timezone=True), nullable=True))
    # Approvals that were answered before have been dealt with.
    op.execute("UPDATE approvals SET shown_at = created_at, done_at = answered_at")
    op.add_column("subagent_runs", sa.Column("ready_at", sa.DateTime(timezone=True), nullable=True))
    document = sa.JSON(none_as_null=True).with_variant(
        postgresql.JSONB(none_as_null=True), "postgresql"
    )
    op.create_table(
        "run_questions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("channel", sa.String(length=50), nullable=False),
        sa.Column("place_workspace", sa.String(length=100), server_default="", nullable=False),
        sa.Column("place_channel", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_thread", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_message", sa.String(length=255), server_default="", nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("tool", sa.String(length=200), server_default="", nullable=False),
        sa.Column("fingerprint", sa.String(length=64), server_default="", nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("options", document, server_default=sa.text("'[]'"), nullable=False),
        sa.Column("status", sa.String(length=20), server_default="open", nullable=False),
        sa.Column("whole_run", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("answer", sa.Text(), server_default="", nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("shown_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("answered_by", sa.String(length=255), nullable=True),
        sa.Column("message_id", sa.String(length=255), server_default="", nullable=False),
        sa.CheckConstraint("kind IN ('permit','input')", name=op.f("ck_run_questions_kind")),
        sa.CheckConstraint(
            "status IN ('open','yes','no','expired','withdrawn')",
            name=op.f("ck_run_questions_status"),
        ),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["subagent_runs.id"],
            name=op.f("fk_run_questions_run_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_run_questions_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_questions")),
    )
    op.create_index(op.f("ix_run_questions_run_id"), "run_questions", ["run_id"])
    op.create_index(op.f("ix_run_questions_user_id_status"), "run_questions", ["user_id", "status"])
