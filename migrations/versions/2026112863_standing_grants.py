"""Questions about calls may go to a role, and may be answered for later calls until a time."""

import sqlalchemy as sa
from alembic import op

from db.schema.base import place
from db.types import String, UserKey, UtcDateTime

revision = "2026112863"
down_revision = "2026112862"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.create_table(
        "standing_grants",
        sa.Column("id", String(32), primary_key=True),
        sa.Column("user_id", UserKey, sa.ForeignKey("users.id"), nullable=False),
        *place(),
        sa.Column("rule", String(400), nullable=False),
        sa.Column("granted_by", String(255), nullable=False, server_default=""),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("expires_at", UtcDateTime, nullable=False),
    )
    for column in ("user_id", "expires_at"):
        op.create_index(f"ix_standing_grants_{column}", "standing_grants", [column])
    for name, length in (("approver", 40), ("rule", 400)):
        added: sa.Column[str] = sa.Column(name, String(length), nullable=False, server_default="")
        op.add_column("run_questions", added)
