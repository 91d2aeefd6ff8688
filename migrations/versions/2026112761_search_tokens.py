"""The platform's permission to search for a user."""

import sqlalchemy as sa
from alembic import op

from db.types import String

revision = "2026112761"
down_revision = "2026112751"


def upgrade() -> None:
    """Bring the tables to this version."""
    column: sa.Column[str] = sa.Column(
        "search_token", String(500), nullable=False, server_default=""
    )
    op.add_column("users", column)
