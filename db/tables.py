"""Defines every table."""

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
    MetaData,
    Table,
    UniqueConstraint,
    text,
)

from db.types import JsonDocument, String, StringList, Text, UserKey, UtcDateTime, UuidText

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _place() -> list[Column[str]]:
    """Return the columns of the full route of an answer: see `bot.values.Place`."""
    return [
        Column("channel", String(50), nullable=False),
        Column("place_workspace", String(100), nullable=False, server_default=""),
        Column("place_channel", String(255), nullable=False, server_default=""),
        Column("place_thread", String(255), nullable=False, server_default=""),
        Column("place_message", String(255), nullable=False, server_default=""),
    ]


def _where(name: str, column: str, condition: str) -> Index:
    """Return an index of the rows that meet a condition."""
    return Index(name, column, sqlite_where=text(condition), postgresql_where=text(condition))


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
    *_place(),
    # The turn in progress, at most one at a time.
    Column("active_turn_id", String(32)),
    # The model, as `provider/model`; empty for the configured one.
    Column("model", String(255), nullable=False, server_default=""),
    Column("created_at", UtcDateTime, nullable=False),
    Column("closed_at", UtcDateTime),
    Index(
        "ix_conversations_open",
        "user_id",
        "channel",
        "place_workspace",
        "place_channel",
        "place_thread",
        unique=True,
        sqlite_where=text("closed_at IS NULL"),
        postgresql_where=text("closed_at IS NULL"),
    ),
    # Closed conversations too: the bot listens in a thread after `/new`, and reads places after a
    # gap.
    Index(
        "ix_conversations_place",
        "channel",
        "place_workspace",
        "place_channel",
        "place_thread",
        "user_id",
        "id",
    ),
    Index(None, "user_id"),
)

messages = Table(
    "messages",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("conversation_id", String(32), ForeignKey("conversations.id"), nullable=False),
    # `user`, `assistant`, `reset`, or `result`: the wrapped, untrusted result of a run.
    Column("role", String(20), nullable=False),
    # For a user's message, the user's own words.
    Column("text", Text, nullable=False),
    # Content by others that came with a user's message: [{"kind": …, "text": …}].
    Column("quoted", JsonDocument),
    # The message has content that neither the user nor the bot wrote, or that the bot derived from
    # such.
    Column("foreign_content", Boolean, nullable=False, server_default=text("false")),
    Column("turn_id", String(32)),
    Column("run_id", UuidText),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "conversation_id", "id"),
    Index(None, "created_at"),
    _where("ix_messages_run_id", "run_id", "run_id IS NOT NULL"),
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
    *_place(),
    Column("message_id", String(32), nullable=False),
    # `queued`, `running`, `done`, `failed`, `stopped`
    Column("status", String(20), nullable=False, server_default="queued"),
    # `message`: a user sent it. `summary`: results of runs are summarised. `confirmed`: the user
    # approved calls, with which the turn begins. `greeting`: its answer is stored already.
    Column("kind", String(20), nullable=False, server_default="message"),
    # `user` or `admin`: the user's role at the time of the message.
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
    Column("output_tokens", Integer, nullable=False, server_default=text("0")),
    Column("created_at", UtcDateTime, nullable=False),
    # When its message was sent, if that was before the bot received it.
    Column("said_at", UtcDateTime),
    # The turn waits until then while the files of its message are fetched.
    Column("held_until", UtcDateTime),
    Column("ended_at", UtcDateTime),
    CheckConstraint("status IN ('queued','running','done','failed','stopped')", name="status"),
    Index(None, "conversation_id", "status"),
    Index(None, "status"),
    Index(None, "user_id"),
    Index(None, "created_at"),
    _where("ix_turns_ended_at", "ended_at", "ended_at IS NOT NULL"),
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

subagent_runs = Table(
    "subagent_runs",
    metadata,
    Column("id", UuidText, primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *_place(),
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
    Column("output_tokens", Integer, nullable=False, server_default=text("0")),
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
    _where("ix_subagent_runs_batch_id", "batch_id", "batch_id <> ''"),
    _where("ix_subagent_runs_completed_at", "completed_at", "completed_at IS NOT NULL"),
    _where("ix_subagent_runs_unarchived", "completed_at", "archived_at IS NULL"),
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
    *_place(),
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
        "board_id",
        UuidText,
        ForeignKey("subagent_runs.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("key", String(200), primary_key=True),
    Column("value", Text, nullable=False),
    # The turn or run that wrote it.
    Column("work_id", String(36)),
    Column("updated_at", UtcDateTime, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    # The run's id, or the turn's: the same for every attempt.
    Column("key", String(36), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *_place(),
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
    Column("worker_id", String(64), nullable=False, server_default=""),
    Column("last_error", Text, nullable=False, server_default=""),
    Column("message_ids", JsonDocument, nullable=False, server_default=text("'[]'")),
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
)

approvals = Table(
    "approvals",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *_place(),
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

seen_events = Table(
    "seen_events",
    metadata,
    Column("platform", String(50), primary_key=True),
    Column("event_id", String(255), primary_key=True),
    Column("created_at", UtcDateTime, nullable=False),
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

commands = Table(
    "commands",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *_place(),
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

listeners = Table(
    "listeners",
    metadata,
    # The source of events, such as `discord`; a sharded process receives a part of it.
    Column("name", String(255), primary_key=True),
    Column("heard_at", UtcDateTime, nullable=False),
)

workers = Table(
    "workers",
    metadata,
    # New at each start of a process.
    Column("id", String(64), primary_key=True),
    Column("platforms", StringList, nullable=False),
    # Platforms that this process serves no more, or never did, with the reason.
    Column("ended_platforms", JsonDocument),
    Column("started_at", UtcDateTime, nullable=False),
    Column("beat_at", UtcDateTime, nullable=False),
    # When it was asked to end.
    Column("leaving_at", UtcDateTime),
    Column("stopped_at", UtcDateTime),
    # When another process detected its crash.
    Column("crashed_at", UtcDateTime),
)

audit = Table(
    "audit",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", UserKey, nullable=False),
    Column("action", String(50), nullable=False),
    Column("subject", String(255), nullable=False),
    Column("detail", Text, nullable=False, server_default=""),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "created_at"),
)

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

mcp_pins = Table(
    "mcp_pins",
    metadata,
    Column("server", String(64), primary_key=True),
    # The tool's name on the server.
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

schedules = Table(
    "schedules",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("user_id", UserKey, ForeignKey("users.id"), nullable=False),
    *_place(),
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
    _where("ix_schedules_ended_at", "ended_at", "ended_at IS NOT NULL"),
)

schedule_fires = Table(
    "schedule_fires",
    metadata,
    # Schedule and due time: only the process that inserts this row starts the run of the fire.
    Column(
        "schedule_id",
        String(36),
        ForeignKey("schedules.id", ondelete="CASCADE"),
        primary_key=True,
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
