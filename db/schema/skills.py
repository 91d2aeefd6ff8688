"""Tables that skills store in."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    UniqueConstraint,
    text,
)

from db.schema.base import index_where, metadata, place
from db.types import JsonDocument, String, Text, UserKey, UtcDateTime, UuidText

notes = Table(
    "notes",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    # Per user, from 1: the number that users and models refer to.
    Column("number", BigInteger, nullable=False),
    Column("title", String(200), nullable=False, server_default=""),
    Column("text", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    UniqueConstraint("user_id", "number"),
)

memories = Table(
    "memories",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    # Per user, from 1: the number that users and models refer to.
    Column("number", Integer, nullable=False),
    Column("text", Text, nullable=False),
    # `said`: the user's own words. `confirmed`: found elsewhere and approved by the user.
    Column("origin", String(20), nullable=False),
    # Where it was found, in the main agent's words; empty for the user's own words.
    Column("source", String(200), nullable=False, server_default=""),
    Column("conversation_id", String(32), nullable=False, server_default=""),
    # The message that has the words.
    Column("message_id", String(32), nullable=False, server_default=""),
    Column("created_at", UtcDateTime, nullable=False),
    CheckConstraint("origin IN ('said','confirmed')", name="origin"),
    UniqueConstraint("user_id", "number"),
)

#: The key-value store of the skills that have no tables.
skill_data = Table(
    "skill_data",
    metadata,
    Column("skill", String(64), primary_key=True),
    Column("key", String(200), primary_key=True),
    Column("value", JsonDocument),
    # The characters of key and value, for the quota of the skill.
    Column("size", Integer, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)

todos = Table(
    "todos",
    metadata,
    # The id of the conversation or the run.
    Column("id", String(36), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    Column("items", JsonDocument, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Index(None, "updated_at"),
    Index(None, "user_id"),
)

schedules = Table(
    "schedules",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *place(),
    # Per user, from 1: the number that users and models refer to.
    Column("number", Integer, nullable=False),
    Column("label", String(100), nullable=False, server_default=""),
    Column("task", Text, nullable=False),
    Column("agent", String(64), nullable=False, server_default=""),
    # Empty for a schedule that fires once.
    Column("cron", String(100), nullable=False, server_default=""),
    Column("timezone", String(64), nullable=False),
    # `active`, `paused`; over are `done` (it fired), `cancelled`, `failed` (too many failures).
    Column("status", String(20), nullable=False, server_default="active"),
    # The next fire; NULL if it will not fire again.
    Column("due_at", UtcDateTime),
    # Fires in a row whose runs did not complete.
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("created_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    CheckConstraint("status IN ('active','paused','done','cancelled','failed')", name="status"),
    UniqueConstraint("user_id", "number"),
    Index(None, "status", "due_at"),
    index_where("ix_schedules_ended_at", "ended_at", "ended_at IS NOT NULL"),
)

schedule_fires = Table(
    "schedule_fires",
    metadata,
    # Schedule and due time: only the process that inserts this row starts the run of the fire.
    Column(
        "schedule_id", String(36), ForeignKey("schedules.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("due_at", UtcDateTime, primary_key=True),
    # `claimed`: a process is about to start the run. `started`: the run exists. `counted`: the
    # run's outcome is counted. `refused`, `skipped` (too late), `blocked` (its user is): no run.
    Column("status", String(20), nullable=False, server_default="claimed"),
    Column("run_id", UuidText),
    Column("created_at", UtcDateTime, nullable=False),
    CheckConstraint(
        "status IN ('claimed','started','counted','refused','skipped','blocked')", name="status"
    ),
    Index(None, "status"),
    Index(None, "due_at"),
)

changes = Table(
    "changes",
    metadata,
    # The time in µs, then random digits: ids sort by time.
    Column("id", String(32), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    # `note`, `memory`, `schedule`, `whiteboard`
    Column("kind", String(20), nullable=False),
    # Key of the thing that changed, unique within its kind.
    Column("key", String(255), nullable=False),
    Column("title", String(200), nullable=False),
    # Its state before; NULL if it did not exist.
    Column("before", JsonDocument),
    # The fingerprint of its state after; empty if it was deleted.
    Column("after", String(64), nullable=False, server_default=""),
    # The turn or run that made the change; empty for a command.
    Column("work_id", String(36), nullable=False, server_default=""),
    Column("run_id", UuidText),
    # The change that this one undid.
    Column("undoes", String(32), nullable=False, server_default=""),
    Column("undone_at", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "user_id", "kind", "id"),
    Index(None, "user_id", "id"),
    Index(None, "created_at"),
)

web_addresses = Table(
    "web_addresses",
    metadata,
    # The id of a turn, or of a run without a turn.
    Column("root_id", String(36), primary_key=True),
    # Addresses named by a message, a search result or a page, in order.
    Column("addresses", JsonDocument, nullable=False),
    # Fetches after private material.
    Column("fetches", Integer, nullable=False, server_default=text("0")),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "created_at"),
)

mcp_tokens = Table(
    "mcp_tokens",
    metadata,
    Column("user_id", UserKey, ForeignKey("users.id"), primary_key=True),
    Column("server", String(64), primary_key=True),
    # The tokens and the client's registration, encrypted; empty before the first sign-in.
    Column("secret", Text, nullable=False, server_default=""),
    # The hash of the `state` of a sign-in that has begun; empty for none.
    Column("state_hash", String(64), nullable=False, server_default=""),
    # What that sign-in needs to end, encrypted.
    Column("pending", Text, nullable=False, server_default=""),
    Column("state_until", UtcDateTime),
    # A number that each change of `secret` raises: a process does not replace newer tokens.
    Column("version", Integer, nullable=False, server_default=text("0")),
    Column("used_at", UtcDateTime, nullable=False),
    Index(None, "used_at"),
)

mcp_pins = Table(
    "mcp_pins",
    metadata,
    Column("server", String(64), primary_key=True),
    # The tool's name on the server; empty for the server itself.
    Column("tool", String(200), primary_key=True),
    # Empty for a tool that was never approved.
    Column("approved_hash", String(64), nullable=False, server_default=""),
    Column("approved", JsonDocument),
    Column("offered_hash", String(64), nullable=False),
    Column("offered", JsonDocument, nullable=False),
    Column("offered_at", UtcDateTime, nullable=False),
    Column("approved_at", UtcDateTime),
    Column("approved_by", String(255), nullable=False, server_default=""),
)
