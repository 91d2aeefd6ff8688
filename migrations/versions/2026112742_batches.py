"""Results of one batch are announced in one message."""

import sqlalchemy as sa
from alembic import op

from db.types import String

revision = "2026112742"
down_revision = "2026112741"


def upgrade() -> None:
    """Bring the tables to this version."""
    for name in ("batch_id", "send_key"):
        op.add_column("outbox", sa.Column(name, String(36), nullable=False, server_default=""))
    where = sa.text("batch_id <> ''")
    op.create_index(
        "ix_outbox_batch_id", "outbox", ["batch_id"], sqlite_where=where, postgresql_where=where
    )
