"""The tools of MCP servers, in their approved form."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "2026112104"
down_revision = "2026112103"


def upgrade() -> None:
    """Bring the tables to this version."""
    document = sa.JSON(none_as_null=True).with_variant(
        postgresql.JSONB(none_as_null=True), "postgresql"
    )
    op.create_table(
        "mcp_pins",
        sa.Column("server", sa.String(length=64), nullable=False),
        sa.Column("tool", sa.String(length=200), nullable=False),
        sa.Column("approved_hash", sa.String(length=64), server_default="", nullable=False),
        sa.Column("approved", document, nullable=True),
        sa.Column("offered_hash", sa.String(length=64), nullable=False),
        sa.Column("offered", document, nullable=False),
        sa.Column("offered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("approved_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("approved_by", sa.String(length=255), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("server", "tool", name=op.f("pk_mcp_pins")),
    )
