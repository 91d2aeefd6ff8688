"""The version of the bot that each process runs."""

import sqlalchemy as sa
from alembic import op

from db.types import String

revision = "2026112890"
down_revision = "2026112880"


def upgrade() -> None:
    """Bring the tables to this version."""
    version: sa.Column[str] = sa.Column("version", String(100), nullable=False, server_default="")
    op.add_column("workers", version)
