"""Tables of users, their conversations, and the work that answers a message."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    UniqueConstraint,
    text,
)

from db.schema.base import ROUTE, index_where, metadata, place
from db.types import JsonDocument, String, Text, UserKey, UtcDateTime, UuidText

users = Table(
    "users",
    metadata,
    Column("id", UserKey, primary_key=True),
    Column("platform", String(50), nullable=False),
    Column("workspace", String(100), nullable=False, server_default=""),
    Column("account", String(255), nullable=False),
    Column("name", String(255), nullable=False, server_default=""),
    # `#n`: the number of this user's newest run.
    Column("run_counter", Integer, nullable=False, server_default=text("0")),
    # The notifications about runs: `done`, `progress` or `silent`; empty for the default.
    Column("notify", String(20), nullable=False, server_default=""),
    # The platform's permission to search for the user, of the newest message; it expires soon.
    Column("search_token", String(500), nullable=False, server_default=""),
    # For fair turns between users when slots free up.
    Column("last_admitted_at", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False),
    UniqueConstraint("platform", "workspace", "account"),
)

conversations = Table(
    "conversations",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *place(),
    # The turn in progress, at most one at a time.
    Column("active_turn_id", String(32)),
    # Of a personal conversation: the model, as `provider/model`; empty for the configured one.
    Column("model", String(255), nullable=False, server_default=""),
    # Everyone in the place takes part. `user_id` is the user who opened it.
    Column("shared", Boolean, nullable=False, server_default=text("false")),
    # When the messages above the first mention were read; null until then.
    Column("looked_at", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False),
    Column("closed_at", UtcDateTime),
    Index(
        "ix_conversations_open",
        "user_id",
        *ROUTE,
        unique=True,
        sqlite_where=text("closed_at IS NULL AND shared = 0"),
        postgresql_where=text("closed_at IS NULL AND NOT shared"),
    ),
    Index(
        "ix_conversations_shared",
        *ROUTE,
        unique=True,
        sqlite_where=text("closed_at IS NULL AND shared = 1"),
        postgresql_where=text("closed_at IS NULL AND shared"),
    ),
    # Closed conversations too: the bot listens in a thread after `/new`, and reads places after a
    # gap.
    Index("ix_conversations_place", *ROUTE, "user_id", "id"),
    Index(None, "user_id"),
)

participants = Table(
    "participants",
    metadata,
    Column(
        "conversation_id",
        String(32),
        ForeignKey("conversations.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    # `u3` in what the model reads.
    Column("number", Integer, primary_key=True, autoincrement=False),
    # The key of the account, of a user of the bot or not.
    Column("author", UserKey, nullable=False),
    # The shown name when it first wrote here, unique in the conversation.
    Column("name", String(80), nullable=False),
    # The model that answers this user here; empty for the configured one.
    Column("model", String(255), nullable=False, server_default=""),
    UniqueConstraint("conversation_id", "author", name="uq_participants_conversation_id_author"),
)

messages = Table(
    "messages",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("conversation_id", String(32), ForeignKey("conversations.id"), nullable=False),
    # `user`, `bot` (another bot), `assistant`, `reset`, or `result`: the wrapped, untrusted result
    # of a run.
    Column("role", String(20), nullable=False),
    # For a user's message, the user's own words.
    Column("text", Text, nullable=False),
    # Who wrote it: the key of the account, and the number and name of the participant. Empty for
    # messages of the bot, and of users before version 0.2.
    Column("author", UserKey, nullable=False, server_default=""),
    Column("author_number", Integer, nullable=False, server_default=text("0")),
    Column("author_name", String(80), nullable=False, server_default=""),
    # The platform's id of the message, and of the message that it answers; empty if unknown.
    Column("reference", String(255), nullable=False, server_default=""),
    Column("reply_to", String(255), nullable=False, server_default=""),
    # When it was sent, if that was before the bot received it.
    Column("said_at", UtcDateTime),
    # It was not addressed to the bot: it is context.
    Column("overheard", Boolean, nullable=False, server_default=text("false")),
    # Content by others that came with a user's message: [{"kind": …, "text": …}].
    Column("quoted", JsonDocument),
    # The message has content that neither the user nor the bot wrote, or that the bot derived from
    # such.
    Column("foreign_content", Boolean, nullable=False, server_default=text("false")),
    Column("turn_id", String(32)),
    Column("run_id", UuidText),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "conversation_id", "id"),
    # The newest messages: ids are not always in the order in which messages were received.
    Index("ix_messages_conversation_id_created_at", "conversation_id", "created_at"),
    Index(None, "created_at"),
    index_where("ix_messages_run_id", "run_id", "run_id IS NOT NULL"),
    index_where("ix_messages_reference", "reference", "reference != ''"),
    # For the data of a user, which is exported and deleted.
    index_where("ix_messages_author", "author", "author <> ''"),
    index_where("ix_messages_reply_to", "reply_to", "reply_to <> ''"),
    index_where("ix_messages_turn_id", "turn_id", "turn_id IS NOT NULL"),
    index_where("ix_messages_summary", "conversation_id", "role = 'summary'"),
    Index(
        "ix_messages_overheard",
        "created_at",
        sqlite_where=text("overheard = 1"),
        postgresql_where=text("overheard"),
    ),
)

files = Table(
    "files",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("message_id", String(32), ForeignKey("messages.id"), nullable=False),
    Column("name", String(255), nullable=False),
    # For an image; empty for a text, which is in `data` as UTF-8.
    Column("media_type", String(100), nullable=False, server_default=""),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "message_id"),
    Index(None, "created_at"),
)

turns = Table(
    "turns",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("conversation_id", String(32), ForeignKey("conversations.id"), nullable=False),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *place(),
    Column("message_id", String(32), nullable=False),
    # `queued`, `running`, `done`, `failed`, `stopped`
    Column("status", String(20), nullable=False, server_default="queued"),
    # `message`: a user sent it. `summary`: results of runs are summarised. `confirmed`: the user
    # approved calls, with which the turn begins. `greeting`: its answer is stored already.
    Column("kind", String(20), nullable=False, server_default="message"),
    # `user`, `admin` or `operator`: the user's rights at the time of the message.
    Column("role", String(10), nullable=False, server_default="user"),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    # Processes that ended while this was the work that they had started last.
    Column("crashes", Integer, nullable=False, server_default=text("0")),
    # The start of a process that works on it, and since when: see `workers`.
    Column("worker_id", String(64), nullable=False, server_default=""),
    Column("begun_at", UtcDateTime),
    Column("reply_message_id", String(255), nullable=False, server_default=""),
    Column("stop_requested_at", UtcDateTime),
    Column("input_tokens", Integer, nullable=False, server_default=text("0")),
    # The part of the input that was read from a cache.
    Column("cached_tokens", Integer, nullable=False, server_default=text("0")),
    Column("output_tokens", Integer, nullable=False, server_default=text("0")),
    # In micro-dollars; null if a call had no price.
    Column("cost", BigInteger, server_default=text("0")),
    # The model that gave the last answer; empty for none.
    Column("answering_model", String(255), nullable=False, server_default=""),
    Column("created_at", UtcDateTime, nullable=False),
    # When its message was sent, if that was before the bot received it.
    # Its name in the database is that of version 0.1, whose processes may run beside this one.
    Column("said_at", UtcDateTime, key="sent_at"),
    # Of a shared conversation: the newest message that the turn has read; empty before it began.
    Column("seen_id", String(32), nullable=False, server_default=""),
    # The turn waits until then while the files of its message are fetched.
    Column("held_until", UtcDateTime),
    Column("ended_at", UtcDateTime),
    CheckConstraint("status IN ('queued','running','done','failed','stopped')", name="status"),
    Index(None, "conversation_id", "status"),
    Index(None, "status"),
    Index(None, "user_id"),
    Index(None, "created_at"),
    index_where("ix_turns_ended_at", "ended_at", "ended_at IS NOT NULL"),
)

commands = Table(
    "commands",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *place(),
    Column("role", String(10), nullable=False, server_default="user"),
    Column("text", Text, nullable=False),
    Column("conversation_id", String(32), nullable=False, server_default=""),
    # The start of the process that executes it: see `workers`.
    Column("worker_id", String(64), nullable=False),
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    # Its effect is committed; the row is deleted when it is answered.
    Column("applied_at", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False),
)

grants = Table(
    "grants",
    metadata,
    Column(
        "conversation_id",
        String(32),
        ForeignKey("conversations.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("user_id", UserKey, ForeignKey("users.id"), primary_key=True),
    Column("tool", String(100), primary_key=True),
    Column("expires_at", UtcDateTime, nullable=False),
    Index(None, "user_id"),
    Index(None, "expires_at"),
)

standing_grants = Table(
    "standing_grants",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    # The place of the question; the grant counts in its server or workspace.
    *place(),
    # The rule that asks, as it is spelled.
    Column("rule", String(400), nullable=False),
    Column("granted_by", String(255), nullable=False, server_default=""),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Index(None, "user_id"),
    Index(None, "expires_at"),
)

pairings = Table(
    "pairings",
    metadata,
    Column("user_id", UserKey, ForeignKey("users.id"), primary_key=True),
    # What the user sends to an admin, who confirms it.
    Column("code", String(16), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("confirmed_at", UtcDateTime),
    Column("confirmed_by", String(255), nullable=False, server_default=""),
    UniqueConstraint("code"),
    Index(None, "created_at"),
)

approvals = Table(
    "approvals",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *place(),
    Column("conversation_id", String(32), nullable=False, server_default=""),
    Column("run_id", UuidText),
    Column("tool", String(100), nullable=False),
    Column("arguments", JsonDocument, nullable=False),
    # A hash of tool and arguments, which ties the approval to the call that was shown.
    Column("fingerprint", String(64), nullable=False),
    Column("context", JsonDocument, nullable=False),
    # `open`, `approved`, `denied`, `expired`
    Column("status", String(20), nullable=False, server_default="open"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("answered_at", UtcDateTime),
    Column("answered_by", UserKey),
    # When its user could first read it: earlier messages do not answer it.
    Column("shown_at", UtcDateTime),
    # When the approved call had been executed: until then its execution is uncertain.
    Column("done_at", UtcDateTime),
    CheckConstraint("status IN ('open','approved','denied','expired')", name="status"),
    Index(None, "user_id", "status"),
    Index(None, "status", "expires_at"),
    Index(None, "created_at"),
)
