"""The audit log names users and places in columns of their own, and is sealed."""

import sqlalchemy as sa
from alembic import op

from db.schema.base import place
from db.types import String, UserKey, UtcDateTime

revision = "2026112880"
down_revision = "2026112870"

#: The beginnings of effects that ended with the key of a user.
_OF_OWNER = ("run of ", "work of ", "confirmation of ", "question of a run of ")
#: Actions whose subject was the key of a user.
_ON_ACCOUNTS = ("export", "delete", "hold", "release hold", "pair", "unpair")


def upgrade() -> None:
    """Bring the tables to this version."""
    op.add_column("audit", sa.Column("owner_id", UserKey, nullable=False, server_default=""))
    for each in place():
        op.add_column("audit", sa.Column(each.name, each.type, nullable=False, server_default=""))
    op.add_column("audit", sa.Column("number", sa.BigInteger))
    for name, length in (
        ("pseudonym", 32),
        ("owner_pseudonym", 32),
        ("key_id", 32),
        ("text_hash", 64),
        ("chain_hash", 64),
    ):
        added: sa.Column[str] = sa.Column(name, String(length), nullable=False, server_default="")
        op.add_column("audit", added)
    op.add_column("audit", sa.Column("erased_at", UtcDateTime))
    for column in ("user_id", "owner_id"):
        op.create_index(f"ix_audit_{column}", "audit", [column])
    for name, of, condition in (
        ("number", "number", "number IS NOT NULL"),
        ("unsealed", "created_at", "number IS NULL"),
        ("unerased", "created_at", "erased_at IS NULL"),
    ):
        op.create_index(
            f"ix_audit_{name}",
            "audit",
            [of],
            unique=name == "number",
            sqlite_where=sa.text(condition),
            postgresql_where=sa.text(condition),
        )
    columns = ("owner_id", "action", "subject", "detail")
    audit = sa.table("audit", *map(sa.column, columns))
    for begin in _OF_OWNER:
        owner = sa.func.substr(audit.c.detail, len(begin) + 1)
        named = audit.c.detail.startswith(begin)
        op.execute(sa.update(audit).where(named).values(owner_id=owner))
    on_account = audit.c.action.in_(_ON_ACCOUNTS)
    op.execute(sa.update(audit).where(on_account).values(owner_id=audit.c.subject))
    # What users did themselves before this version was not recorded: only admins' actions were,
    # and access that was lost, which is the user's own.
    lost = audit.c.action == "access lost"
    user: sa.ColumnClause[str] = sa.column("user_id")
    op.execute(sa.update(audit).where(lost).values(owner_id=user))
