"""Tables of processes, platform connections, and audits."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    Table,
    UniqueConstraint,
    text,
)

from db.schema.base import index_where, metadata, place
from db.types import JsonDocument, String, StringList, Text, UserKey, UtcDateTime

workers = Table(
    "workers",
    metadata,
    # New at each start of a process.
    Column("id", String(64), primary_key=True),
    Column("platforms", StringList, nullable=False),
    # Platforms that this process serves no more, or never did, with the reason.
    Column("ended_platforms", JsonDocument),
    Column("started_at", UtcDateTime, nullable=False),
    # Its name in the database is that of version 0.1, whose processes may run beside this one.
    Column("beat_at", UtcDateTime, key="heartbeat_at", nullable=False),
    # When it was asked to end.
    Column("leaving_at", UtcDateTime),
    Column("stopped_at", UtcDateTime),
    # When another process detected its crash.
    Column("crashed_at", UtcDateTime),
    # The fingerprint of the configuration in force there, and the hash of the file it read last.
    Column("configuration", String(64), nullable=False, server_default=""),
    Column("configuration_file", String(64), nullable=False, server_default=""),
    # The version of the bot, and that of the tables it knows.
    Column("version", String(100), nullable=False, server_default=""),
)

listeners = Table(
    "listeners",
    metadata,
    # The source of events, such as `discord`; a sharded process receives a part of it.
    Column("name", String(255), primary_key=True),
    Column("heard_at", UtcDateTime, key="last_event_at", nullable=False),
)

seen_events = Table(
    "seen_events",
    metadata,
    Column("platform", String(50), primary_key=True),
    Column("event_id", String(255), primary_key=True),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "created_at"),
)

slack_installs = Table(
    "slack_installs",
    metadata,
    # The app that is installed.
    Column("client_id", String(50), primary_key=True),
    # A workspace (T…), or an organisation (E…) with all of its workspaces.
    Column("workspace", String(50), primary_key=True),
    # The organisation; empty for none.
    Column("enterprise", String(50), nullable=False, server_default=""),
    Column("bot_user", String(50), nullable=False),
    Column("bot", String(50), nullable=False, server_default=""),
    # Encrypted.
    Column("token", Text, nullable=False),
    Column("installed_at", UtcDateTime, nullable=False),
)

slack_states = Table(
    "slack_states",
    metadata,
    # Sent with the browser to Slack and back.
    Column("state", String(50), primary_key=True),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "created_at"),
)

# Entries are never changed, apart from their numbers and hashes, and from a text that is erased.
audit = Table(
    "audit",
    metadata,
    Column("id", String(32), primary_key=True),
    # The actor; empty once the text is erased, as are the other columns of the text.
    Column("user_id", UserKey, nullable=False),
    # The user whose work or data it is about; empty for none.
    Column("owner_id", UserKey, nullable=False, server_default=""),
    Column("action", String(50), nullable=False),
    Column("subject", String(255), nullable=False),
    # Its name in the database is that of version 0.1, whose processes may run beside this one.
    Column("detail", Text, key="effect", nullable=False, server_default=""),
    # The place from which it was done; the platform `console` for the command line.
    *(Column(each.name, each.type, nullable=False, server_default="") for each in place()),
    Column("created_at", UtcDateTime, nullable=False),
    # Set by the sealer: see `db.audit`. Without a number an entry is not sealed yet.
    Column("number", BigInteger),
    Column("pseudonym", String(32), nullable=False, server_default=""),
    Column("owner_pseudonym", String(32), nullable=False, server_default=""),
    Column("key_id", String(32), nullable=False, server_default=""),
    Column("text_hash", String(64), nullable=False, server_default=""),
    Column("chain_hash", String(64), nullable=False, server_default=""),
    Column("erased_at", UtcDateTime),
    Index(None, "created_at"),
    index_where("ix_audit_number", "number", "number IS NOT NULL", unique=True),
    Index(None, "user_id"),
    Index(None, "owner_id"),
    index_where("ix_audit_unsealed", "created_at", "number IS NULL"),
    index_where("ix_audit_unerased", "created_at", "erased_at IS NULL"),
)

# What admins have been notified of: a row per key, so that nothing is sent twice.
admin_notices = Table(
    "admin_notices",
    metadata,
    # Made from the key; the ids of its items in the outbox and of its buttons contain it.
    Column("id", String(32), primary_key=True),
    Column("key", String(255), nullable=False),
    Column("text", Text, nullable=False),
    # The place that it is about; empty for the whole bot.
    *place(),
    # The label and the command line of each button.
    Column("buttons", JsonDocument, nullable=False, server_default=text("'[]'")),
    # The admin who pressed a button, and its label; empty before.
    Column("user_id", UserKey, nullable=False, server_default=""),
    Column("chosen", String(100), nullable=False, server_default=""),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "created_at"),
)

# Nothing new begins in their scope: a row each.
pauses = Table(
    "pauses",
    metadata,
    # Made from the scope.
    Column("id", String(700), primary_key=True),
    # The user whose work it is about; empty for all users.
    Column("user_id", UserKey, nullable=False, server_default=""),
    # The server or channel; without a platform everywhere.
    *place(),
    # Everything in the scope was stopped as well.
    Column("killed", Boolean, nullable=False, server_default=text("false")),
    Column("paused_by", UserKey, nullable=False),
    # Only an operator may lift it.
    Column("by_operator", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", UtcDateTime, nullable=False),
)

# What is stored about their users is not erased: a row each.
holds = Table(
    "holds",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", UserKey, nullable=False),
    # The account, as it is written in the configuration.
    Column("shown", String(255), nullable=False),
    # The name of the case.
    Column("name", String(100), nullable=False),
    Column("held_by", UserKey, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    UniqueConstraint("user_id", "name"),
)

# What users under a hold have edited or deleted meanwhile: a row per message, and per file of it.
held_copies = Table(
    "held_copies",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", UserKey, nullable=False),
    Column("message_id", String(32), nullable=False),
    Column("conversation_id", String(32), nullable=False),
    # The platform's id of the message.
    Column("reference", String(255), nullable=False, server_default=""),
    Column("text", Text, nullable=False, server_default=""),
    Column("quoted", JsonDocument),
    # Of a file; empty for the message itself.
    Column("name", String(255), nullable=False, server_default=""),
    Column("data", LargeBinary),
    Column("created_at", UtcDateTime, nullable=False),
    Column("erased_at", UtcDateTime, nullable=False),
    Index(None, "user_id"),
)

# The tools and agents that every request of a place carries.
place_choices = Table(
    "place_choices",
    metadata,
    Column("place_key", String(700), primary_key=True),
    Column("day", UtcDateTime, nullable=False),
    Column("tools", StringList, nullable=False),
    Column("agents", StringList, nullable=False),
    # All names between which was chosen.
    Column("known", StringList, nullable=False),
    Index(None, "day"),
)

tool_uses = Table(
    "tool_uses",
    metadata,
    Column("place_key", String(700), primary_key=True),
    # A tool, or `agent/` and an agent.
    Column("name", String(100), primary_key=True),
    Column("day", UtcDateTime, primary_key=True),
    Column("uses", Integer, nullable=False),
    Index(None, "day"),
)

pools = Table(
    "pools",
    metadata,
    # Scope, period and subject: see `bot.spending.pools`. No id of a user, but a pseudonym.
    Column("id", String(400), primary_key=True),
    Column("used_tokens", BigInteger, nullable=False, server_default=text("0")),
    # In micro-dollars, as are the other costs.
    Column("used_cost", BigInteger, nullable=False, server_default=text("0")),
    # The sums of the open reservations.
    Column("reserved_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("reserved_cost", BigInteger, nullable=False, server_default=text("0")),
    # By these an admin has raised the limit, until a time.
    Column("extra_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("extra_cost", BigInteger, nullable=False, server_default=text("0")),
    Column("extra_until", UtcDateTime),
    # When 80 % of the limit, and a refusal, were reported.
    Column("warned_at", UtcDateTime),
    Column("exhausted_at", UtcDateTime),
    # The end of its period; of a run, later than any run ends.
    Column("ends_at", UtcDateTime, nullable=False),
    Index(None, "ends_at"),
)

reservations = Table(
    "reservations",
    metadata,
    # One for each model call that has begun and is not settled.
    Column("id", String(32), primary_key=True),
    Column("pools", StringList, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
    # The process that makes the call, and the turn or run that pays.
    Column("worker_id", String(64), nullable=False),
    Column("work_id", String(36), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "worker_id"),
)
