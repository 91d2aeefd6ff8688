"""Schedules and their fires, memories, and to-do lists."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "2026112105"
down_revision = "2026112104"


def upgrade() -> None:
    """Bring the tables to this version."""
    create_schedules()
    create_memories()
    create_todos()


def create_schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("channel", sa.String(length=50), nullable=False),
        sa.Column("place_workspace", sa.String(length=100), server_default="", nullable=False),
        sa.Column("place_channel", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_thread", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_message", sa.String(length=255), server_default="", nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("label", sa.String(length=100), server_default="", nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("agent", sa.String(length=64), server_default="", nullable=False),
        sa.Column("cron", sa.String(length=100), server_default="", nullable=False),
        sa.Column("timezone", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=20), server_default="active", nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "status IN ('active','paused','done','cancelled','failed')",
            name=op.f("ck_schedules_status"),
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_schedules_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
        sa.UniqueConstraint("user_id", "number", name=op.f("uq_schedules_user_id_number")),
    )
    op.create_index(op.f("ix_schedules_status_due_at"), "schedules", ["status", "due_at"])
    op.create_table(
        "schedule_fires",
        sa.Column("schedule_id", sa.String(length=36), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.String(length=20), server_default="claimed", nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "status IN ('claimed','started','counted','refused','skipped','blocked')",
            name=op.f("ck_schedule_fires_status"),
        ),
        sa.ForeignKeyConstraint(
            ["schedule_id"],
            ["schedules.id"],
            name=op.f("fk_schedule_fires_schedule_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("schedule_id", "due_at", name=op.f("pk_schedule_fires")),
    )
    op.create_index(op.f("ix_schedule_fires_status"), "schedule_fires", ["status"])
    op.create_index(op.f("ix_schedule_fires_due_at"), "schedule_fires", ["due_at"])


def create_memories() -> None:
    op.create_table(
        "memories",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("origin", sa.String(length=20), nullable=False),
        sa.Column("source", sa.String(length=200), server_default="", nullable=False),
        sa.Column("conversation_id", sa.String(length=32), server_default="", nullable=False),
        sa.Column("message_id", sa.String(length=32), server_default="", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("origin IN ('said','confirmed')", name=op.f("ck_memories_origin")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_memories_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memories")),
        sa.UniqueConstraint("user_id", "number", name=op.f("uq_memories_user_id_number")),
    )


def create_todos() -> None:
    items = sa.JSON(none_as_null=True).with_variant(
        postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), "postgresql"
    )
    op.create_table(
        "todos",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("items", items, nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_todos_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_todos")),
    )
    op.create_index(op.f("ix_todos_updated_at"), "todos", ["updated_at"])
