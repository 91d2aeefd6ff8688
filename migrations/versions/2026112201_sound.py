"""Tables and columns for recovery, foreign content, undo and fair limits."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from db.types import JsonDocument

revision = "2026112201"
down_revision = "2026112107"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.add_column("messages", sa.Column("quoted", JsonDocument, nullable=True))
    op.add_column(
        "messages",
        sa.Column("foreign_content", sa.Boolean(), nullable=False, server_default=sa.text("false")),
    )
    op.create_index(
        "ix_conversations_place",
        "conversations",
        ["channel", "place_workspace", "place_channel", "place_thread", "user_id", "id"],
    )
    op.create_table(
        "listeners",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("heard_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_listeners")),
    )
    op.add_column("turns", sa.Column("said_at", sa.DateTime(timezone=True), nullable=True))
    op.create_table(
        "commands",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("channel", sa.String(length=50), nullable=False),
        sa.Column("place_workspace", sa.String(length=100), server_default="", nullable=False),
        sa.Column("place_channel", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_thread", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_message", sa.String(length=255), server_default="", nullable=False),
        sa.Column("role", sa.String(length=10), server_default="user", nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.String(length=32), server_default="", nullable=False),
        sa.Column("worker_id", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("applied_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_commands_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_commands")),
    )
    document = sa.JSON(none_as_null=True).with_variant(
        postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), "postgresql"
    )
    op.add_column("workers", sa.Column("ended_platforms", document))
    op.add_column(
        "subagent_runs",
        sa.Column("discounted_tokens", sa.Integer(), server_default=sa.text("0"), nullable=False),
    )
    op.add_column(
        "subagent_runs",
        sa.Column("degraded", sa.Boolean(), nullable=False, server_default=sa.text("false")),
    )
    op.add_column(
        "run_questions",
        sa.Column("shown_with", sa.String(length=32), nullable=False, server_default=""),
    )
    op.add_column("whiteboard", sa.Column("work_id", sa.String(length=36), nullable=True))
    op.create_table(
        "changes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("before", document, nullable=True),
        sa.Column("after", sa.String(length=64), server_default="", nullable=False),
        sa.Column("work_id", sa.String(length=36), server_default="", nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("undoes", sa.String(length=32), server_default="", nullable=False),
        sa.Column("undone_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_changes_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_changes")),
    )
    op.create_index(op.f("ix_changes_user_id_kind_id"), "changes", ["user_id", "kind", "id"])
    op.create_index(op.f("ix_changes_user_id_id"), "changes", ["user_id", "id"])
    op.create_index(op.f("ix_changes_created_at"), "changes", ["created_at"])
    for table in ("turns", "subagent_runs"):
        op.add_column(table, sa.Column("begun_at", sa.DateTime(timezone=True)))
    op.add_column("turns", sa.Column("worker_id", sa.String(64), nullable=False, server_default=""))
    for name in ("leaving_at", "crashed_at"):
        op.add_column("workers", sa.Column(name, sa.DateTime(timezone=True)))
    op.create_table(
        "web_addresses",
        sa.Column("root_id", sa.String(length=36), nullable=False),
        sa.Column("addresses", document, nullable=False),
        sa.Column("fetches", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("root_id", name=op.f("pk_web_addresses")),
    )
    op.create_index(op.f("ix_web_addresses_created_at"), "web_addresses", ["created_at"])
    for table, columns in (
        ("conversations", ["user_id"]),
        ("messages", ["created_at"]),
        ("turns", ["user_id"]),
        ("turns", ["created_at"]),
        ("run_questions", ["status", "expires_at"]),
        ("outbox", ["run_id"]),
        ("outbox", ["created_at"]),
        ("approvals", ["status", "expires_at"]),
        ("approvals", ["created_at"]),
        ("todos", ["user_id"]),
    ):
        op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, columns)
    for name, table, column, condition in (
        ("ix_messages_run_id", "messages", "run_id", "run_id IS NOT NULL"),
        ("ix_turns_ended_at", "turns", "ended_at", "ended_at IS NOT NULL"),
        ("ix_subagent_runs_batch_id", "subagent_runs", "batch_id", "batch_id <> ''"),
        (
            "ix_subagent_runs_completed_at",
            "subagent_runs",
            "completed_at",
            "completed_at IS NOT NULL",
        ),
        ("ix_subagent_runs_unarchived", "subagent_runs", "completed_at", "archived_at IS NULL"),
        ("ix_schedules_ended_at", "schedules", "ended_at", "ended_at IS NOT NULL"),
    ):
        where = sa.text(condition)
        op.create_index(name, table, [column], sqlite_where=where, postgresql_where=where)
