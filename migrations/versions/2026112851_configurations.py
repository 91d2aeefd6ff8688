"""Processes store the configuration that is in force in them."""

import sqlalchemy as sa
from alembic import op

from db.types import String

revision = "2026112851"
down_revision = "2026112811"


def upgrade() -> None:
    """Bring the tables to this version."""
    for name in ("configuration", "configuration_file"):
        column: sa.Column[str] = sa.Column(name, String(64), nullable=False, server_default="")
        op.add_column("workers", column)
