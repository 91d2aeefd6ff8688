"""An index by which an edit or a deletion on the platform finds the stored message."""

import sqlalchemy as sa
from alembic import op

revision = "2026112602"
down_revision = "2026112601"


def upgrade() -> None:
    """Bring the tables to this version."""
    where = sa.text("reference != ''")
    op.create_index(
        "ix_messages_reference",
        "messages",
        ["reference"],
        sqlite_where=where,
        postgresql_where=where,
    )
