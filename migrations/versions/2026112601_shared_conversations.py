"""Conversations that the users of a place share, messages with authors, and scratch of runs.

Existing conversations stay personal; the first message after the upgrade closes those of its place.
"""

import sqlalchemy as sa
from alembic import op

from db.types import String, Text, UserKey, UtcDateTime, UuidText

revision = "2026112601"
down_revision = "2026112501"

ROUTE = ["channel", "place_workspace", "place_channel", "place_thread"]


def upgrade() -> None:
    """Bring the tables to this version."""
    false = sa.text("false")
    op.add_column(
        "conversations", sa.Column("shared", sa.Boolean, nullable=False, server_default=false)
    )
    op.add_column("conversations", sa.Column("looked_at", UtcDateTime))
    op.drop_index("ix_conversations_open", table_name="conversations")
    for name, columns, personal in (
        ("ix_conversations_open", ["user_id", *ROUTE], True),
        ("ix_conversations_shared", ROUTE, False),
    ):
        op.create_index(
            name,
            "conversations",
            columns,
            unique=True,
            sqlite_where=sa.text(f"closed_at IS NULL AND shared = {0 if personal else 1}"),
            postgresql_where=sa.text(
                f"closed_at IS NULL AND {'NOT shared' if personal else 'shared'}"
            ),
        )
    op.create_table(
        "participants",
        sa.Column(
            "conversation_id",
            String(32),
            sa.ForeignKey(
                "conversations.id",
                ondelete="CASCADE",
                name="fk_participants_conversation_id",
            ),
            nullable=False,
        ),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("author", UserKey, nullable=False),
        sa.Column("name", String(80), nullable=False),
        sa.Column("model", String(255), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("conversation_id", "number", name="pk_participants"),
        sa.UniqueConstraint(
            "conversation_id", "author", name="uq_participants_conversation_id_author"
        ),
    )
    for column in (
        sa.Column("author", UserKey, nullable=False, server_default=""),
        sa.Column("author_number", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("author_name", String(80), nullable=False, server_default=""),
        sa.Column("reference", String(255), nullable=False, server_default=""),
        sa.Column("reply_to", String(255), nullable=False, server_default=""),
        sa.Column("said_at", UtcDateTime),
        sa.Column("overheard", sa.Boolean, nullable=False, server_default=false),
    ):
        op.add_column("messages", column)
    op.create_index(
        "ix_messages_overheard",
        "messages",
        ["created_at"],
        sqlite_where=sa.text("overheard = 1"),
        postgresql_where=sa.text("overheard"),
    )
    op.create_table(
        "grants",
        sa.Column(
            "conversation_id",
            String(32),
            sa.ForeignKey("conversations.id", ondelete="CASCADE", name="fk_grants_conversation_id"),
            nullable=False,
        ),
        sa.Column(
            "user_id",
            UserKey,
            sa.ForeignKey("users.id", name="fk_grants_user_id"),
            nullable=False,
        ),
        sa.Column("tool", String(100), nullable=False),
        sa.Column("expires_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("conversation_id", "user_id", "tool", name="pk_grants"),
    )
    op.create_index("ix_grants_user_id", "grants", ["user_id"])
    op.create_index("ix_grants_expires_at", "grants", ["expires_at"])
    op.create_table(
        "scratch",
        sa.Column(
            "run_id",
            UuidText,
            sa.ForeignKey("subagent_runs.id", ondelete="CASCADE", name="fk_scratch_run_id"),
            nullable=False,
        ),
        sa.Column("key", String(200), nullable=False),
        sa.Column("value", Text, nullable=False),
        sa.Column("updated_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "key", name="pk_scratch"),
    )
    op.add_column("turns", sa.Column("seen_id", String(32), nullable=False, server_default=""))
