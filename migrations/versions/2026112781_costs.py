"""The cached tokens and the cost of turns and runs."""

import sqlalchemy as sa
from alembic import op

from db.types import String

revision = "2026112781"
down_revision = "2026112772"


def upgrade() -> None:
    """Bring the tables to this version."""
    for name in ("turns", "subagent_runs"):
        op.add_column(
            name,
            sa.Column("cached_tokens", sa.Integer, nullable=False, server_default=sa.text("0")),
        )
        op.add_column(name, sa.Column("cost", sa.BigInteger, server_default=sa.text("0")))
        table = sa.table(name, sa.column("cost"), *map(sa.column, _TOKENS))
        # Nobody knows what earlier calls cost.
        charged = sa.or_(*(table.c[each] > 0 for each in _TOKENS))
        op.execute(sa.update(table).where(charged).values(cost=None))
    answering_model: sa.Column[str] = sa.Column(
        "answering_model", String(255), nullable=False, server_default=""
    )
    op.add_column("turns", answering_model)


_TOKENS = ("input_tokens", "output_tokens")
