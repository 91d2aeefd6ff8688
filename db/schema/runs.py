"""Tables of runs, of their steps, and of what they deliver."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)

from db.schema.base import ROUTE, index_where, metadata, place
from db.types import JsonDocument, String, StringList, Text, UserKey, UtcDateTime, UuidText

subagent_runs = Table(
    "subagent_runs",
    metadata,
    Column("id", UuidText, primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *place(),
    Column("conversation_id", String(32), nullable=False, server_default=""),
    # The message of the turn that requested it; empty for a command.
    Column("parent_message_id", String(32), nullable=False, server_default=""),
    Column("parent_run_id", UuidText),
    # Shared by the runs that one turn spawned.
    Column("batch_id", String(36), nullable=False, server_default=""),
    Column("number", Integer, nullable=False),
    Column("label", String(100), nullable=False, server_default=""),
    Column("agent", String(64), nullable=False, server_default="general"),
    Column("task", Text, nullable=False),
    Column("context", Text, nullable=False, server_default=""),
    Column("instructions", Text, nullable=False, server_default=""),
    Column("status", String(20), nullable=False, server_default="accepted"),
    Column("mode", String(10), nullable=False, server_default="async"),
    Column("depth", Integer, nullable=False, server_default=text("1")),
    Column("announce", String(10), nullable=False, server_default="result"),
    Column("model", String(255)),
    Column("provider", String(100)),
    Column("result", Text),
    Column("error", Text),
    # It completed, but every tool call that it made was refused or failed.
    Column("degraded", Boolean, nullable=False, server_default=text("false")),
    Column("input_tokens", Integer, nullable=False, server_default=text("0")),
    # The part of the input that was read from a cache.
    Column("cached_tokens", Integer, nullable=False, server_default=text("0")),
    Column("output_tokens", Integer, nullable=False, server_default=text("0")),
    # In micro-dollars; null if a call had no price.
    Column("cost", BigInteger, server_default=text("0")),
    # The part of these tokens that does not count towards the budget: cached input counts by its
    # price.
    Column("discounted_tokens", Integer, nullable=False, server_default=text("0")),
    Column("token_budget", Integer, nullable=False),
    # Most tokens that the current model call may cost; charged when the process dies during the
    # call.
    Column("reserved_tokens", Integer, nullable=False, server_default=text("0")),
    Column("tool_call_count", Integer, nullable=False, server_default=text("0")),
    Column("max_steps", Integer, nullable=False),
    Column("timeout_ms", Integer, nullable=False),
    # Working time so far; waiting for a user is not counted.
    Column("seconds_used", Float, nullable=False, server_default=text("0")),
    Column("transcript", JsonDocument, nullable=False, server_default=text("'[]'")),
    Column("metadata", JsonDocument, nullable=False, server_default=text("'{}'")),
    Column("allowed_tools", StringList),
    Column("blocked_tools", StringList),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    # Processes that ended while this was the work that they had started last.
    Column("crashes", Integer, nullable=False, server_default=text("0")),
    # The start of a process that works on it, and since when: see `workers`.
    Column("worker_id", String(64), nullable=False, server_default=""),
    Column("begun_at", UtcDateTime),
    # The platform's id of the message that shows its card.
    Column("card_message_id", String(255), nullable=False, server_default=""),
    # That message shows the run's final state, or can never show it.
    Column("card_drawn", Boolean, nullable=False, server_default=text("false")),
    # Its user has answered: the run resumes as soon as a slot is free.
    Column("ready_at", UtcDateTime),
    Column("cancel_requested_at", UtcDateTime),
    Column("cancelled_by", String(255), nullable=False, server_default=""),
    Column("created_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("completed_at", UtcDateTime),
    Column("archived_at", UtcDateTime),
    CheckConstraint("mode IN ('sync','async')", name="mode"),
    CheckConstraint("announce IN ('result','summary','silent')", name="announce"),
    CheckConstraint(
        "status IN ('queued','accepted','running','waiting_approval','waiting_input','completed',"
        "'failed','timeout','cancelled','budget_exceeded','max_tool_calls','max_steps','stalled',"
        "'lost')",
        name="status",
    ),
    UniqueConstraint("user_id", "number"),
    Index(None, "user_id", "status"),
    Index(None, "user_id", "created_at"),
    Index(None, "created_at"),
    Index(None, "status"),
    Index(None, "parent_run_id"),
    Index(None, "conversation_id"),
    index_where("ix_subagent_runs_batch_id", "batch_id", "batch_id <> ''"),
    index_where("ix_subagent_runs_cancelled_by", "cancelled_by", "cancelled_by <> ''"),
    index_where("ix_subagent_runs_completed_at", "completed_at", "completed_at IS NOT NULL"),
    Index(
        "ix_subagent_runs_not_drawn",
        "completed_at",
        sqlite_where=text("card_message_id <> '' AND card_drawn = 0"),
        postgresql_where=text("card_message_id <> '' AND NOT card_drawn"),
    ),
    Index(
        "ix_subagent_runs_ended",
        "user_id",
        "completed_at",
        sqlite_where=text("completed_at IS NOT NULL"),
        postgresql_where=text("completed_at IS NOT NULL"),
    ),
    index_where("ix_subagent_runs_unarchived", "completed_at", "archived_at IS NULL"),
)

steps = Table(
    "steps",
    metadata,
    # The id of a turn or of a run.
    Column("work_id", String(36), primary_key=True),
    # The fence: an attempt that finds its number taken has lost the work.
    Column("seq", Integer, primary_key=True),
    # `answer`: the model's input since the last answer, and its answer. `result`: the result of a
    # call that must not be made twice. `carried`, with the number -1: the transcript of the run
    # that this run continues.
    Column("kind", String(20), nullable=False),
    Column("body", JsonDocument, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "created_at"),
)

step_media = Table(
    "step_media",
    metadata,
    # The id of a turn or of a run.
    Column("work_id", String(36), primary_key=True),
    # The SHA-256 digest of the content.
    Column("digest", String(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "created_at"),
)

run_messages = Table(
    "run_messages",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("run_id", UuidText, ForeignKey("subagent_runs.id", ondelete="CASCADE"), nullable=False),
    Column("text", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    # The step before which it was read; NULL while it waits.
    Column("read_at_step", Integer),
    Index(None, "run_id", "read_at_step"),
)

run_questions = Table(
    "run_questions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("run_id", UuidText, ForeignKey("subagent_runs.id", ondelete="CASCADE"), nullable=False),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *place(),
    # `permit`: permission for a call. `input`: facts that the run needs.
    Column("kind", String(10), nullable=False),
    Column("tool", String(200), nullable=False, server_default=""),
    # A hash of tool and arguments, which ties the permission to the call that was shown.
    Column("fingerprint", String(64), nullable=False, server_default=""),
    Column("text", Text, nullable=False),
    Column("options", JsonDocument, nullable=False, server_default=text("'[]'")),
    # `open`, `yes`, `no`, `expired`; `withdrawn`: the run ended first.
    Column("status", String(20), nullable=False, server_default="open"),
    # The permission covers every call of this tool by the run.
    Column("whole_run", Boolean, nullable=False, server_default=text("false")),
    Column("answer", Text, nullable=False, server_default=""),
    # When the permitted call began.
    Column("used_at", UtcDateTime),
    # When its user could first read it: earlier messages do not answer it.
    Column("shown_at", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("answered_at", UtcDateTime),
    Column("answered_by", UserKey),
    # The platform's id of the message that shows it; empty while there is none.
    Column("message_id", String(255), nullable=False, server_default=""),
    # The question whose text covers this call too: this one is `withdrawn` until that one is
    # permitted.
    Column("shown_with", String(32), nullable=False, server_default=""),
    # The role that decides; empty for the owner.
    Column("approver", String(40), nullable=False, server_default=""),
    # The rule that asks, as it is spelled; empty for another reason.
    Column("rule", String(400), nullable=False, server_default=""),
    CheckConstraint("kind IN ('permit','input')", name="kind"),
    CheckConstraint("status IN ('open','yes','no','expired','withdrawn')", name="status"),
    Index(None, "run_id"),
    Index(None, "user_id", "status"),
    Index(None, "status", "expires_at"),
)

whiteboard = Table(
    "whiteboard",
    metadata,
    Column(
        "board_id", UuidText, ForeignKey("subagent_runs.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("key", String(200), primary_key=True),
    Column("value", Text, nullable=False),
    # The turn or run that wrote it.
    Column("work_id", String(36)),
    Column("updated_at", UtcDateTime, nullable=False),
)

scratch = Table(
    "scratch",
    metadata,
    Column(
        "run_id", UuidText, ForeignKey("subagent_runs.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("key", String(200), primary_key=True),
    Column("value", Text, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)

# The sentences about progress, a row per place: of runs with `worded` in their metadata.
sentences = Table(
    "sentences",
    metadata,
    *place()[: len(ROUTE)],
    # When the newest one was begun.
    Column("begun_at", UtcDateTime, nullable=False),
    # It is being posted: no result is sent to the place before this time.
    Column("posting_until", UtcDateTime),
    PrimaryKeyConstraint(*ROUTE),
    Index(None, "begun_at"),
)

run_files = Table(
    "run_files",
    metadata,
    Column(
        "run_id", UuidText, ForeignKey("subagent_runs.id", ondelete="CASCADE"), primary_key=True
    ),
    # The order in which the run named them.
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", String(255), nullable=False),
    Column("data", LargeBinary, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    # The run's id, or the turn's: the same for every attempt.
    Column("key", String(36), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *place(),
    Column("run_id", UuidText),
    Column("title", Text, nullable=False, server_default=""),
    Column("text", Text, nullable=False),
    Column("footer", Text, nullable=False, server_default=""),
    # `held`: the main agent is summarising it. `pending`: due at `due_at`. `sending`: passed to the
    # platform, no response yet. `waiting`: the user is absent. `delivered`. `blocked`: attempts
    # failed, can be retried. `dismissed`: not wanted any more.
    Column("status", String(20), nullable=False, server_default="pending"),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("maybe_repeated", Boolean, nullable=False, server_default=text("false")),
    # Only the files of the run are left to deliver; status and attempts are those of the files.
    Column("text_delivered", Boolean, nullable=False, server_default=text("false")),
    Column("worker_id", String(64), nullable=False, server_default=""),
    Column("last_error", Text, nullable=False, server_default=""),
    Column("message_ids", JsonDocument, nullable=False, server_default=text("'[]'")),
    # The turn that started the run, if the result may be announced together with those of others.
    Column("batch_id", String(36), nullable=False, server_default=""),
    # The platform's idempotency key of a message for several items; empty before it is sent.
    Column("send_key", String(36), nullable=False, server_default=""),
    Column("created_at", UtcDateTime, nullable=False),
    Column("due_at", UtcDateTime, nullable=False),
    Column("first_tried_at", UtcDateTime),
    Column("delivered_at", UtcDateTime),
    CheckConstraint(
        "status IN ('held','pending','sending','waiting','delivered','blocked','dismissed')",
        name="status",
    ),
    Index(None, "status", "due_at"),
    Index(None, "user_id", "status"),
    Index(None, "run_id"),
    Index(None, "created_at"),
    index_where("ix_outbox_batch_id", "batch_id", "batch_id <> ''"),
)
