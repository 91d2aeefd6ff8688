"""The rows about a user are found by indexes."""

import sqlalchemy as sa
from alembic import op

revision = "2026112751"
down_revision = "2026112743"


def upgrade() -> None:
    """Bring the tables to this version."""
    for name, table, column, condition in (
        ("ix_messages_author", "messages", "author", "author <> ''"),
        ("ix_messages_reply_to", "messages", "reply_to", "reply_to <> ''"),
        ("ix_messages_turn_id", "messages", "turn_id", "turn_id IS NOT NULL"),
        ("ix_messages_summary", "messages", "conversation_id", "role = 'summary'"),
        ("ix_subagent_runs_cancelled_by", "subagent_runs", "cancelled_by", "cancelled_by <> ''"),
    ):
        where = sa.text(condition)
        op.create_index(name, table, [column], sqlite_where=where, postgresql_where=where)
