"""Installations of the bot on Slack; turns that wait for the files of their message."""

import sqlalchemy as sa
from alembic import op

revision = "2026112103"
down_revision = "2026112102"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_table(
        "slack_installs",
        sa.Column("client_id", sa.String(length=50), nullable=False),
        sa.Column("workspace", sa.String(length=50), nullable=False),
        sa.Column("enterprise", sa.String(length=50), server_default="", nullable=False),
        sa.Column("bot_user", sa.String(length=50), nullable=False),
        sa.Column("bot", sa.String(length=50), server_default="", nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("installed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "workspace", name=op.f("pk_slack_installs")),
    )
    op.create_table(
        "slack_states",
        sa.Column("state", sa.String(length=50), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("state", name=op.f("pk_slack_states")),
    )
    op.create_index(op.f("ix_slack_states_created_at"), "slack_states", ["created_at"])
    op.add_column("turns", sa.Column("held_until", sa.DateTime(timezone=True), nullable=True))
