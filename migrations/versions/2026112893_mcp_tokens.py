"""Tokens of users for MCP servers."""

import sqlalchemy as sa
from alembic import op

from db.types import String, Text, UserKey, UtcDateTime

revision = "2026112893"
down_revision = "2026112890"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_table(
        "mcp_tokens",
        sa.Column("user_id", UserKey, sa.ForeignKey("users.id"), primary_key=True),
        sa.Column("server", String(64), primary_key=True),
        sa.Column("secret", Text, nullable=False, server_default=""),
        sa.Column("state_hash", String(64), nullable=False, server_default=""),
        sa.Column("pending", Text, nullable=False, server_default=""),
        sa.Column("state_until", UtcDateTime),
        sa.Column("version", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("used_at", UtcDateTime, nullable=False),
    )
    op.create_index("ix_mcp_tokens_used_at", "mcp_tokens", ["used_at"])
