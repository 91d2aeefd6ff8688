# ruff: noqa: E501
"""All tables, and the search in notes."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "2026112101"
down_revision = None


def upgrade() -> None:
    create_tables()
    if op.get_bind().dialect.name == "sqlite":
        for statement in SQLITE_FULL_TEXT:
            op.execute(statement)
    else:
        op.execute(POSTGRESQL_FULL_TEXT)


# The id is indexed too, so that a trigger finds the row of a note without reading all rows.
_FORGET = """
    DELETE FROM notes_fts WHERE rowid IN (
        SELECT rowid FROM notes_fts WHERE notes_fts MATCH 'note_id:"' || old.id || '"'
    );
"""
_LEARN = "INSERT INTO notes_fts (note_id, title, text) VALUES (new.id, new.title, new.text);"
SQLITE_FULL_TEXT = (
    """
    CREATE VIRTUAL TABLE notes_fts USING fts5 (
        note_id, title, text, tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
    )
    """,
    f"CREATE TRIGGER notes_fts_insert AFTER INSERT ON notes BEGIN {_LEARN} END",
    f"CREATE TRIGGER notes_fts_delete AFTER DELETE ON notes BEGIN {_FORGET} END",
    f"""
    CREATE TRIGGER notes_fts_update AFTER UPDATE OF id, title, text ON notes BEGIN
        {_FORGET} {_LEARN}
    END
    """,
)

# `translate` turns punctuation into word boundaries, so that parts of addresses and file names are
# found. `db.search` uses the same expression, or PostgreSQL would not use the index.
MARKS = r"""!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~"""
SPACES = " " * 32
POSTGRESQL_FULL_TEXT = f"""
    CREATE INDEX ix_notes_words ON notes USING gin (
        to_tsvector('simple', translate(title || ' ' || text, '{MARKS}', '{SPACES}'))
    )
"""


def create_tables() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("action", sa.String(length=50), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("detail", sa.Text(), server_default="", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_created_at"), "audit", ["created_at"], unique=False)
    op.create_table(
        "seen_events",
        sa.Column("platform", sa.String(length=50), nullable=False),
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("platform", "event_id", name=op.f("pk_seen_events")),
    )
    op.create_index(op.f("ix_seen_events_created_at"), "seen_events", ["created_at"], unique=False)
    op.create_table(
        "steps",
        sa.Column("work_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column(
            "body",
            sa.JSON(none_as_null=True).with_variant(
                postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), "postgresql"
            ),
            nullable=False,
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("work_id", "seq", name=op.f("pk_steps")),
    )
    op.create_index(op.f("ix_steps_created_at"), "steps", ["created_at"], unique=False)
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("platform", sa.String(length=50), nullable=False),
        sa.Column("workspace", sa.String(length=100), server_default="", nullable=False),
        sa.Column("account", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), server_default="", nullable=False),
        sa.Column("run_counter", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_admitted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint(
            "platform", "workspace", "account", name=op.f("uq_users_platform_workspace_account")
        ),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column(
            "platforms",
            sa.JSON(none_as_null=True).with_variant(postgresql.ARRAY(sa.Text()), "postgresql"),
            nullable=False,
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("beat_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stopped_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    op.create_table(
        "approvals",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("channel", sa.String(length=50), nullable=False),
        sa.Column("place_workspace", sa.String(length=100), server_default="", nullable=False),
        sa.Column("place_channel", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_thread", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_message", sa.String(length=255), server_default="", nullable=False),
        sa.Column("conversation_id", sa.String(length=32), server_default="", nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("tool", sa.String(length=100), nullable=False),
        sa.Column(
            "arguments",
            sa.JSON(none_as_null=True).with_variant(
                postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), "postgresql"
            ),
            nullable=False,
        ),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column(
            "context",
            sa.JSON(none_as_null=True).with_variant(
                postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), "postgresql"
            ),
            nullable=False,
        ),
        sa.Column("status", sa.String(length=20), server_default="open", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("answered_by", sa.String(length=255), nullable=True),
        sa.CheckConstraint(
            "status IN ('open','approved','denied','expired')", name=op.f("ck_approvals_status")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_approvals_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approvals")),
    )
    op.create_index(
        op.f("ix_approvals_user_id_status"), "approvals", ["user_id", "status"], unique=False
    )
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("channel", sa.String(length=50), nullable=False),
        sa.Column("place_workspace", sa.String(length=100), server_default="", nullable=False),
        sa.Column("place_channel", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_thread", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_message", sa.String(length=255), server_default="", nullable=False),
        sa.Column("active_turn_id", sa.String(length=32), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_conversations_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversations")),
    )
    op.create_index(
        "ix_conversations_open",
        "conversations",
        ["user_id", "channel", "place_workspace", "place_channel", "place_thread"],
        unique=True,
        sqlite_where=sa.text("closed_at IS NULL"),
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_table(
        "notes",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("title", sa.String(length=200), server_default="", nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_notes_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notes")),
        sa.UniqueConstraint("user_id", "number", name=op.f("uq_notes_user_id_number")),
    )
    op.create_table(
        "outbox",
        sa.Column("key", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("channel", sa.String(length=50), nullable=False),
        sa.Column("place_workspace", sa.String(length=100), server_default="", nullable=False),
        sa.Column("place_channel", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_thread", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_message", sa.String(length=255), server_default="", nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("title", sa.Text(), server_default="", nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("footer", sa.Text(), server_default="", nullable=False),
        sa.Column("status", sa.String(length=20), server_default="pending", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("maybe_repeated", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("worker_id", sa.String(length=64), server_default="", nullable=False),
        sa.Column("last_error", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "message_ids",
            sa.JSON(none_as_null=True).with_variant(
                postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), "postgresql"
            ),
            server_default=sa.text("'[]'"),
            nullable=False,
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("first_tried_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "status IN ('held','pending','sending','waiting','delivered','blocked','dismissed')",
            name=op.f("ck_outbox_status"),
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_outbox_user_id")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_outbox")),
    )
    op.create_index(op.f("ix_outbox_status_due_at"), "outbox", ["status", "due_at"], unique=False)
    op.create_index(op.f("ix_outbox_user_id_status"), "outbox", ["user_id", "status"], unique=False)
    op.create_table(
        "subagent_runs",
        sa.Column("id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("channel", sa.String(length=50), nullable=False),
        sa.Column("place_workspace", sa.String(length=100), server_default="", nullable=False),
        sa.Column("place_channel", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_thread", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_message", sa.String(length=255), server_default="", nullable=False),
        sa.Column("conversation_id", sa.String(length=32), server_default="", nullable=False),
        sa.Column("parent_message_id", sa.String(length=32), server_default="", nullable=False),
        sa.Column("parent_run_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("batch_id", sa.String(length=36), server_default="", nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("label", sa.String(length=100), server_default="", nullable=False),
        sa.Column("agent", sa.String(length=64), server_default="general", nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("context", sa.Text(), server_default="", nullable=False),
        sa.Column("instructions", sa.Text(), server_default="", nullable=False),
        sa.Column("status", sa.String(length=20), server_default="accepted", nullable=False),
        sa.Column("mode", sa.String(length=10), server_default="async", nullable=False),
        sa.Column("depth", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("announce", sa.String(length=10), server_default="result", nullable=False),
        sa.Column("model", sa.String(length=255), nullable=True),
        sa.Column("provider", sa.String(length=100), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("output_tokens", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("token_budget", sa.Integer(), nullable=False),
        sa.Column("reserved_tokens", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("tool_call_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("max_steps", sa.Integer(), nullable=False),
        sa.Column("timeout_ms", sa.Integer(), nullable=False),
        sa.Column("seconds_used", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "transcript",
            sa.JSON(none_as_null=True).with_variant(
                postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), "postgresql"
            ),
            server_default=sa.text("'[]'"),
            nullable=False,
        ),
        sa.Column(
            "metadata",
            sa.JSON(none_as_null=True).with_variant(
                postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), "postgresql"
            ),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column(
            "allowed_tools",
            sa.JSON(none_as_null=True).with_variant(postgresql.ARRAY(sa.Text()), "postgresql"),
            nullable=True,
        ),
        sa.Column(
            "blocked_tools",
            sa.JSON(none_as_null=True).with_variant(postgresql.ARRAY(sa.Text()), "postgresql"),
            nullable=True,
        ),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("crashes", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("worker_id", sa.String(length=64), server_default="", nullable=False),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancelled_by", sa.String(length=255), server_default="", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "announce IN ('result','summary','silent')", name=op.f("ck_subagent_runs_announce")
        ),
        sa.CheckConstraint("mode IN ('sync','async')", name=op.f("ck_subagent_runs_mode")),
        sa.CheckConstraint(
            "status IN ('queued','accepted','running','waiting_approval','waiting_input','completed','failed','timeout','cancelled','budget_exceeded','max_tool_calls','max_steps','stalled','lost')",
            name=op.f("ck_subagent_runs_status"),
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_subagent_runs_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subagent_runs")),
        sa.UniqueConstraint("user_id", "number", name=op.f("uq_subagent_runs_user_id_number")),
    )
    op.create_index(
        op.f("ix_subagent_runs_conversation_id"), "subagent_runs", ["conversation_id"], unique=False
    )
    op.create_index(
        op.f("ix_subagent_runs_created_at"), "subagent_runs", ["created_at"], unique=False
    )
    op.create_index(
        op.f("ix_subagent_runs_parent_run_id"), "subagent_runs", ["parent_run_id"], unique=False
    )
    op.create_index(op.f("ix_subagent_runs_status"), "subagent_runs", ["status"], unique=False)
    op.create_index(
        op.f("ix_subagent_runs_user_id_created_at"),
        "subagent_runs",
        ["user_id", "created_at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_subagent_runs_user_id_status"),
        "subagent_runs",
        ["user_id", "status"],
        unique=False,
    )
    op.create_table(
        "messages",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("conversation_id", sa.String(length=32), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("turn_id", sa.String(length=32), nullable=True),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_messages_conversation_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
    )
    op.create_index(
        op.f("ix_messages_conversation_id_id"), "messages", ["conversation_id", "id"], unique=False
    )
    op.create_table(
        "run_messages",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("read_at_step", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["subagent_runs.id"],
            name=op.f("fk_run_messages_run_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_messages")),
    )
    op.create_index(
        op.f("ix_run_messages_run_id_read_at_step"),
        "run_messages",
        ["run_id", "read_at_step"],
        unique=False,
    )
    op.create_table(
        "turns",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("conversation_id", sa.String(length=32), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("channel", sa.String(length=50), nullable=False),
        sa.Column("place_workspace", sa.String(length=100), server_default="", nullable=False),
        sa.Column("place_channel", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_thread", sa.String(length=255), server_default="", nullable=False),
        sa.Column("place_message", sa.String(length=255), server_default="", nullable=False),
        sa.Column("message_id", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=20), server_default="queued", nullable=False),
        sa.Column("kind", sa.String(length=20), server_default="message", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("crashes", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("reply_message_id", sa.String(length=255), server_default="", nullable=False),
        sa.Column("stop_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("input_tokens", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("output_tokens", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "status IN ('queued','running','done','failed','stopped')", name=op.f("ck_turns_status")
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_turns_conversation_id")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_turns_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turns")),
    )
    op.create_index(
        op.f("ix_turns_conversation_id_status"),
        "turns",
        ["conversation_id", "status"],
        unique=False,
    )
    op.create_index(op.f("ix_turns_status"), "turns", ["status"], unique=False)
    op.create_table(
        "whiteboard",
        sa.Column("board_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["board_id"],
            ["subagent_runs.id"],
            name=op.f("fk_whiteboard_board_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("board_id", "key", name=op.f("pk_whiteboard")),
    )
