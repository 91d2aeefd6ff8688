"""All tables: `db.schema` defines them by subject."""

from db.schema.base import metadata
from db.schema.conversations import (
    approvals,
    commands,
    conversations,
    files,
    grants,
    messages,
    pairings,
    participants,
    standing_grants,
    turns,
    users,
)
from db.schema.runs import (
    outbox,
    run_files,
    run_messages,
    run_questions,
    scratch,
    sentences,
    step_media,
    steps,
    subagent_runs,
    whiteboard,
)
from db.schema.service import (
    admin_notices,
    audit,
    held_copies,
    holds,
    listeners,
    pauses,
    place_choices,
    pools,
    reservations,
    seen_events,
    slack_installs,
    slack_states,
    tool_uses,
    workers,
)
from db.schema.skills import (
    changes,
    mcp_pins,
    mcp_tokens,
    memories,
    notes,
    schedule_fires,
    schedules,
    skill_data,
    todos,
    web_addresses,
)

__all__ = [
    "admin_notices", "approvals", "audit", "changes", "commands", "conversations", "files",
    "grants", "held_copies", "holds", "listeners", "mcp_pins", "mcp_tokens", "memories",
    "messages", "metadata",
    "notes", "outbox",
    "pairings", "participants", "pauses", "place_choices", "pools", "reservations", "run_files",
    "run_messages", "run_questions", "schedule_fires", "schedules", "scratch", "seen_events",
    "sentences", "skill_data", "slack_installs", "slack_states", "standing_grants", "step_media",
    "steps", "subagent_runs", "todos", "tool_uses", "turns", "users", "web_addresses", "whiteboard",
    "workers",
]  # fmt: skip
