"""A user's choice of notifications about runs."""

import sqlalchemy as sa
from alembic import op

from db.types import String

revision = "2026112743"
down_revision = "2026112742"


def upgrade() -> None:
    """Bring the tables to this version."""
    op.add_column("users", sa.Column("notify", String(20), nullable=False, server_default=""))
