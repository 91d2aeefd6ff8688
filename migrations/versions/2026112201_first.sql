CREATE TABLE users (
    id VARCHAR(255) NOT NULL,
    platform VARCHAR(50) NOT NULL,
    workspace VARCHAR(100) DEFAULT '' NOT NULL,
    account VARCHAR(255) NOT NULL,
    name VARCHAR(255) DEFAULT '' NOT NULL,
    run_counter INTEGER DEFAULT 0 NOT NULL,
    last_admitted_at $TIMESTAMP,
    created_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_users PRIMARY KEY (id),
    CONSTRAINT uq_users_platform_workspace_account UNIQUE (platform, workspace, account)
);

CREATE TABLE conversations (
    id VARCHAR(32) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    channel VARCHAR(50) NOT NULL,
    place_workspace VARCHAR(100) DEFAULT '' NOT NULL,
    place_channel VARCHAR(255) DEFAULT '' NOT NULL,
    place_thread VARCHAR(255) DEFAULT '' NOT NULL,
    place_message VARCHAR(255) DEFAULT '' NOT NULL,
    active_turn_id VARCHAR(32),
    created_at $TIMESTAMP NOT NULL,
    closed_at $TIMESTAMP,
    model VARCHAR(255) DEFAULT '' NOT NULL,
    CONSTRAINT pk_conversations PRIMARY KEY (id),
    CONSTRAINT fk_conversations_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE UNIQUE INDEX ix_conversations_open ON conversations (user_id, channel, place_workspace, place_channel, place_thread) WHERE closed_at IS NULL;
CREATE INDEX ix_conversations_place ON conversations (channel, place_workspace, place_channel, place_thread, user_id, id);
CREATE INDEX ix_conversations_user_id ON conversations (user_id);

CREATE TABLE messages (
    id VARCHAR(32) NOT NULL,
    conversation_id VARCHAR(32) NOT NULL,
    role VARCHAR(20) NOT NULL,
    text TEXT NOT NULL,
    turn_id VARCHAR(32),
    run_id $UUID,
    created_at $TIMESTAMP NOT NULL,
    quoted $JSON,
    foreign_content BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT pk_messages PRIMARY KEY (id),
    CONSTRAINT fk_messages_conversation_id FOREIGN KEY (conversation_id) REFERENCES conversations (id)
);
CREATE INDEX ix_messages_conversation_id_id ON messages (conversation_id, id);
CREATE INDEX ix_messages_created_at ON messages (created_at);
CREATE INDEX ix_messages_run_id ON messages (run_id) WHERE run_id IS NOT NULL;

CREATE TABLE files (
    id VARCHAR(32) NOT NULL,
    message_id VARCHAR(32) NOT NULL,
    name VARCHAR(255) NOT NULL,
    media_type VARCHAR(100) DEFAULT '' NOT NULL,
    data $BYTES NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_files PRIMARY KEY (id),
    CONSTRAINT fk_files_message_id FOREIGN KEY (message_id) REFERENCES messages (id)
);
CREATE INDEX ix_files_message_id ON files (message_id);
CREATE INDEX ix_files_created_at ON files (created_at);

CREATE TABLE turns (
    id VARCHAR(32) NOT NULL,
    conversation_id VARCHAR(32) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    channel VARCHAR(50) NOT NULL,
    place_workspace VARCHAR(100) DEFAULT '' NOT NULL,
    place_channel VARCHAR(255) DEFAULT '' NOT NULL,
    place_thread VARCHAR(255) DEFAULT '' NOT NULL,
    place_message VARCHAR(255) DEFAULT '' NOT NULL,
    message_id VARCHAR(32) NOT NULL,
    status VARCHAR(20) DEFAULT 'queued' NOT NULL,
    kind VARCHAR(20) DEFAULT 'message' NOT NULL,
    attempt INTEGER DEFAULT 0 NOT NULL,
    crashes INTEGER DEFAULT 0 NOT NULL,
    reply_message_id VARCHAR(255) DEFAULT '' NOT NULL,
    stop_requested_at $TIMESTAMP,
    input_tokens INTEGER DEFAULT 0 NOT NULL,
    output_tokens INTEGER DEFAULT 0 NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    ended_at $TIMESTAMP,
    role VARCHAR(10) DEFAULT 'user' NOT NULL,
    held_until $TIMESTAMP,
    said_at $TIMESTAMP,
    begun_at $TIMESTAMP,
    worker_id VARCHAR(64) DEFAULT '' NOT NULL,
    CONSTRAINT pk_turns PRIMARY KEY (id),
    CONSTRAINT ck_turns_status CHECK (status IN ('queued','running','done','failed','stopped')),
    CONSTRAINT fk_turns_conversation_id FOREIGN KEY (conversation_id) REFERENCES conversations (id),
    CONSTRAINT fk_turns_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE INDEX ix_turns_conversation_id_status ON turns (conversation_id, status);
CREATE INDEX ix_turns_status ON turns (status);
CREATE INDEX ix_turns_user_id ON turns (user_id);
CREATE INDEX ix_turns_created_at ON turns (created_at);
CREATE INDEX ix_turns_ended_at ON turns (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE steps (
    work_id VARCHAR(36) NOT NULL,
    seq INTEGER NOT NULL,
    kind VARCHAR(20) NOT NULL,
    body $JSON NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_steps PRIMARY KEY (work_id, seq)
);
CREATE INDEX ix_steps_created_at ON steps (created_at);

CREATE TABLE commands (
    id VARCHAR(32) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    channel VARCHAR(50) NOT NULL,
    place_workspace VARCHAR(100) DEFAULT '' NOT NULL,
    place_channel VARCHAR(255) DEFAULT '' NOT NULL,
    place_thread VARCHAR(255) DEFAULT '' NOT NULL,
    place_message VARCHAR(255) DEFAULT '' NOT NULL,
    role VARCHAR(10) DEFAULT 'user' NOT NULL,
    text TEXT NOT NULL,
    conversation_id VARCHAR(32) DEFAULT '' NOT NULL,
    worker_id VARCHAR(64) NOT NULL,
    attempt INTEGER DEFAULT 1 NOT NULL,
    applied_at $TIMESTAMP,
    created_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_commands PRIMARY KEY (id),
    CONSTRAINT fk_commands_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);

CREATE TABLE seen_events (
    platform VARCHAR(50) NOT NULL,
    event_id VARCHAR(255) NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_seen_events PRIMARY KEY (platform, event_id)
);
CREATE INDEX ix_seen_events_created_at ON seen_events (created_at);

CREATE TABLE listeners (
    name VARCHAR(255) NOT NULL,
    heard_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_listeners PRIMARY KEY (name)
);

CREATE TABLE subagent_runs (
    id $UUID NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    channel VARCHAR(50) NOT NULL,
    place_workspace VARCHAR(100) DEFAULT '' NOT NULL,
    place_channel VARCHAR(255) DEFAULT '' NOT NULL,
    place_thread VARCHAR(255) DEFAULT '' NOT NULL,
    place_message VARCHAR(255) DEFAULT '' NOT NULL,
    conversation_id VARCHAR(32) DEFAULT '' NOT NULL,
    parent_message_id VARCHAR(32) DEFAULT '' NOT NULL,
    parent_run_id $UUID,
    batch_id VARCHAR(36) DEFAULT '' NOT NULL,
    number INTEGER NOT NULL,
    label VARCHAR(100) DEFAULT '' NOT NULL,
    agent VARCHAR(64) DEFAULT 'general' NOT NULL,
    task TEXT NOT NULL,
    context TEXT DEFAULT '' NOT NULL,
    instructions TEXT DEFAULT '' NOT NULL,
    status VARCHAR(20) DEFAULT 'accepted' NOT NULL,
    mode VARCHAR(10) DEFAULT 'async' NOT NULL,
    depth INTEGER DEFAULT 1 NOT NULL,
    announce VARCHAR(10) DEFAULT 'result' NOT NULL,
    model VARCHAR(255),
    provider VARCHAR(100),
    result TEXT,
    error TEXT,
    input_tokens INTEGER DEFAULT 0 NOT NULL,
    output_tokens INTEGER DEFAULT 0 NOT NULL,
    token_budget INTEGER NOT NULL,
    reserved_tokens INTEGER DEFAULT 0 NOT NULL,
    tool_call_count INTEGER DEFAULT 0 NOT NULL,
    max_steps INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL,
    seconds_used FLOAT DEFAULT 0 NOT NULL,
    transcript $JSON DEFAULT '[]' NOT NULL,
    metadata $JSON DEFAULT '{}' NOT NULL,
    allowed_tools $TEXT_LIST,
    blocked_tools $TEXT_LIST,
    attempt INTEGER DEFAULT 0 NOT NULL,
    crashes INTEGER DEFAULT 0 NOT NULL,
    worker_id VARCHAR(64) DEFAULT '' NOT NULL,
    cancel_requested_at $TIMESTAMP,
    cancelled_by VARCHAR(255) DEFAULT '' NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    started_at $TIMESTAMP,
    updated_at $TIMESTAMP NOT NULL,
    completed_at $TIMESTAMP,
    archived_at $TIMESTAMP,
    card_message_id VARCHAR(255) DEFAULT '' NOT NULL,
    ready_at $TIMESTAMP,
    discounted_tokens INTEGER DEFAULT 0 NOT NULL,
    degraded BOOLEAN DEFAULT false NOT NULL,
    begun_at $TIMESTAMP,
    CONSTRAINT pk_subagent_runs PRIMARY KEY (id),
    CONSTRAINT ck_subagent_runs_announce CHECK (announce IN ('result','summary','silent')),
    CONSTRAINT ck_subagent_runs_mode CHECK (mode IN ('sync','async')),
    CONSTRAINT ck_subagent_runs_status CHECK (status IN ('queued','accepted','running','waiting_approval','waiting_input','completed','failed','timeout','cancelled','budget_exceeded','max_tool_calls','max_steps','stalled','lost')),
    CONSTRAINT fk_subagent_runs_user_id FOREIGN KEY (user_id) REFERENCES users (id),
    CONSTRAINT uq_subagent_runs_user_id_number UNIQUE (user_id, number)
);
CREATE INDEX ix_subagent_runs_conversation_id ON subagent_runs (conversation_id);
CREATE INDEX ix_subagent_runs_created_at ON subagent_runs (created_at);
CREATE INDEX ix_subagent_runs_parent_run_id ON subagent_runs (parent_run_id);
CREATE INDEX ix_subagent_runs_status ON subagent_runs (status);
CREATE INDEX ix_subagent_runs_user_id_created_at ON subagent_runs (user_id, created_at);
CREATE INDEX ix_subagent_runs_user_id_status ON subagent_runs (user_id, status);
CREATE INDEX ix_subagent_runs_batch_id ON subagent_runs (batch_id) WHERE batch_id <> '';
CREATE INDEX ix_subagent_runs_completed_at ON subagent_runs (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX ix_subagent_runs_unarchived ON subagent_runs (completed_at) WHERE archived_at IS NULL;

CREATE TABLE run_messages (
    id VARCHAR(36) NOT NULL,
    run_id $UUID NOT NULL,
    text TEXT NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    read_at_step INTEGER,
    CONSTRAINT pk_run_messages PRIMARY KEY (id),
    CONSTRAINT fk_run_messages_run_id FOREIGN KEY (run_id) REFERENCES subagent_runs (id) ON DELETE CASCADE
);
CREATE INDEX ix_run_messages_run_id_read_at_step ON run_messages (run_id, read_at_step);

CREATE TABLE run_questions (
    id VARCHAR(32) NOT NULL,
    run_id $UUID NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    channel VARCHAR(50) NOT NULL,
    place_workspace VARCHAR(100) DEFAULT '' NOT NULL,
    place_channel VARCHAR(255) DEFAULT '' NOT NULL,
    place_thread VARCHAR(255) DEFAULT '' NOT NULL,
    place_message VARCHAR(255) DEFAULT '' NOT NULL,
    kind VARCHAR(10) NOT NULL,
    tool VARCHAR(200) DEFAULT '' NOT NULL,
    fingerprint VARCHAR(64) DEFAULT '' NOT NULL,
    text TEXT NOT NULL,
    options $JSON DEFAULT '[]' NOT NULL,
    status VARCHAR(20) DEFAULT 'open' NOT NULL,
    whole_run BOOLEAN DEFAULT false NOT NULL,
    answer TEXT DEFAULT '' NOT NULL,
    used_at $TIMESTAMP,
    shown_at $TIMESTAMP,
    created_at $TIMESTAMP NOT NULL,
    expires_at $TIMESTAMP NOT NULL,
    answered_at $TIMESTAMP,
    answered_by VARCHAR(255),
    message_id VARCHAR(255) DEFAULT '' NOT NULL,
    shown_with VARCHAR(32) DEFAULT '' NOT NULL,
    CONSTRAINT pk_run_questions PRIMARY KEY (id),
    CONSTRAINT ck_run_questions_kind CHECK (kind IN ('permit','input')),
    CONSTRAINT ck_run_questions_status CHECK (status IN ('open','yes','no','expired','withdrawn')),
    CONSTRAINT fk_run_questions_run_id FOREIGN KEY (run_id) REFERENCES subagent_runs (id) ON DELETE CASCADE,
    CONSTRAINT fk_run_questions_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE INDEX ix_run_questions_run_id ON run_questions (run_id);
CREATE INDEX ix_run_questions_user_id_status ON run_questions (user_id, status);
CREATE INDEX ix_run_questions_status_expires_at ON run_questions (status, expires_at);

CREATE TABLE whiteboard (
    board_id $UUID NOT NULL,
    "key" VARCHAR(200) NOT NULL,
    value TEXT NOT NULL,
    updated_at $TIMESTAMP NOT NULL,
    work_id VARCHAR(36),
    CONSTRAINT pk_whiteboard PRIMARY KEY (board_id, "key"),
    CONSTRAINT fk_whiteboard_board_id FOREIGN KEY (board_id) REFERENCES subagent_runs (id) ON DELETE CASCADE
);

CREATE TABLE outbox (
    "key" VARCHAR(36) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    channel VARCHAR(50) NOT NULL,
    place_workspace VARCHAR(100) DEFAULT '' NOT NULL,
    place_channel VARCHAR(255) DEFAULT '' NOT NULL,
    place_thread VARCHAR(255) DEFAULT '' NOT NULL,
    place_message VARCHAR(255) DEFAULT '' NOT NULL,
    run_id $UUID,
    title TEXT DEFAULT '' NOT NULL,
    text TEXT NOT NULL,
    footer TEXT DEFAULT '' NOT NULL,
    status VARCHAR(20) DEFAULT 'pending' NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    maybe_repeated BOOLEAN DEFAULT false NOT NULL,
    worker_id VARCHAR(64) DEFAULT '' NOT NULL,
    last_error TEXT DEFAULT '' NOT NULL,
    message_ids $JSON DEFAULT '[]' NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    due_at $TIMESTAMP NOT NULL,
    first_tried_at $TIMESTAMP,
    delivered_at $TIMESTAMP,
    CONSTRAINT pk_outbox PRIMARY KEY ("key"),
    CONSTRAINT ck_outbox_status CHECK (status IN ('held','pending','sending','waiting','delivered','blocked','dismissed')),
    CONSTRAINT fk_outbox_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE INDEX ix_outbox_status_due_at ON outbox (status, due_at);
CREATE INDEX ix_outbox_user_id_status ON outbox (user_id, status);
CREATE INDEX ix_outbox_run_id ON outbox (run_id);
CREATE INDEX ix_outbox_created_at ON outbox (created_at);

CREATE TABLE approvals (
    id VARCHAR(32) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    channel VARCHAR(50) NOT NULL,
    place_workspace VARCHAR(100) DEFAULT '' NOT NULL,
    place_channel VARCHAR(255) DEFAULT '' NOT NULL,
    place_thread VARCHAR(255) DEFAULT '' NOT NULL,
    place_message VARCHAR(255) DEFAULT '' NOT NULL,
    conversation_id VARCHAR(32) DEFAULT '' NOT NULL,
    run_id $UUID,
    tool VARCHAR(100) NOT NULL,
    arguments $JSON NOT NULL,
    fingerprint VARCHAR(64) NOT NULL,
    context $JSON NOT NULL,
    status VARCHAR(20) DEFAULT 'open' NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    expires_at $TIMESTAMP NOT NULL,
    answered_at $TIMESTAMP,
    answered_by VARCHAR(255),
    shown_at $TIMESTAMP,
    done_at $TIMESTAMP,
    CONSTRAINT pk_approvals PRIMARY KEY (id),
    CONSTRAINT ck_approvals_status CHECK (status IN ('open','approved','denied','expired')),
    CONSTRAINT fk_approvals_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE INDEX ix_approvals_user_id_status ON approvals (user_id, status);
CREATE INDEX ix_approvals_status_expires_at ON approvals (status, expires_at);
CREATE INDEX ix_approvals_created_at ON approvals (created_at);

CREATE TABLE todos (
    id VARCHAR(36) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    items $JSON NOT NULL,
    updated_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_todos PRIMARY KEY (id),
    CONSTRAINT fk_todos_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE INDEX ix_todos_updated_at ON todos (updated_at);
CREATE INDEX ix_todos_user_id ON todos (user_id);

CREATE TABLE workers (
    id VARCHAR(64) NOT NULL,
    platforms $TEXT_LIST NOT NULL,
    started_at $TIMESTAMP NOT NULL,
    beat_at $TIMESTAMP NOT NULL,
    stopped_at $TIMESTAMP,
    ended_platforms $JSON,
    leaving_at $TIMESTAMP,
    crashed_at $TIMESTAMP,
    CONSTRAINT pk_workers PRIMARY KEY (id)
);

CREATE TABLE audit (
    id VARCHAR(32) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    action VARCHAR(50) NOT NULL,
    subject VARCHAR(255) NOT NULL,
    detail TEXT DEFAULT '' NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_audit PRIMARY KEY (id)
);
CREATE INDEX ix_audit_created_at ON audit (created_at);

CREATE TABLE notes (
    id VARCHAR(36) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    number BIGINT NOT NULL,
    title VARCHAR(200) DEFAULT '' NOT NULL,
    text TEXT NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_notes PRIMARY KEY (id),
    CONSTRAINT fk_notes_user_id FOREIGN KEY (user_id) REFERENCES users (id),
    CONSTRAINT uq_notes_user_id_number UNIQUE (user_id, number)
);

CREATE TABLE memories (
    id VARCHAR(36) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    origin VARCHAR(20) NOT NULL,
    source VARCHAR(200) DEFAULT '' NOT NULL,
    conversation_id VARCHAR(32) DEFAULT '' NOT NULL,
    message_id VARCHAR(32) DEFAULT '' NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_memories PRIMARY KEY (id),
    CONSTRAINT ck_memories_origin CHECK (origin IN ('said','confirmed')),
    CONSTRAINT fk_memories_user_id FOREIGN KEY (user_id) REFERENCES users (id),
    CONSTRAINT uq_memories_user_id_number UNIQUE (user_id, number)
);

CREATE TABLE schedules (
    id VARCHAR(36) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    channel VARCHAR(50) NOT NULL,
    place_workspace VARCHAR(100) DEFAULT '' NOT NULL,
    place_channel VARCHAR(255) DEFAULT '' NOT NULL,
    place_thread VARCHAR(255) DEFAULT '' NOT NULL,
    place_message VARCHAR(255) DEFAULT '' NOT NULL,
    number INTEGER NOT NULL,
    label VARCHAR(100) DEFAULT '' NOT NULL,
    task TEXT NOT NULL,
    agent VARCHAR(64) DEFAULT '' NOT NULL,
    cron VARCHAR(100) DEFAULT '' NOT NULL,
    timezone VARCHAR(64) NOT NULL,
    status VARCHAR(20) DEFAULT 'active' NOT NULL,
    due_at $TIMESTAMP,
    failures INTEGER DEFAULT 0 NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    ended_at $TIMESTAMP,
    CONSTRAINT pk_schedules PRIMARY KEY (id),
    CONSTRAINT ck_schedules_status CHECK (status IN ('active','paused','done','cancelled','failed')),
    CONSTRAINT fk_schedules_user_id FOREIGN KEY (user_id) REFERENCES users (id),
    CONSTRAINT uq_schedules_user_id_number UNIQUE (user_id, number)
);
CREATE INDEX ix_schedules_status_due_at ON schedules (status, due_at);
CREATE INDEX ix_schedules_ended_at ON schedules (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE schedule_fires (
    schedule_id VARCHAR(36) NOT NULL,
    due_at $TIMESTAMP NOT NULL,
    status VARCHAR(20) DEFAULT 'claimed' NOT NULL,
    run_id $UUID,
    created_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_schedule_fires PRIMARY KEY (schedule_id, due_at),
    CONSTRAINT ck_schedule_fires_status CHECK (status IN ('claimed','started','counted','refused','skipped','blocked')),
    CONSTRAINT fk_schedule_fires_schedule_id FOREIGN KEY (schedule_id) REFERENCES schedules (id) ON DELETE CASCADE
);
CREATE INDEX ix_schedule_fires_status ON schedule_fires (status);
CREATE INDEX ix_schedule_fires_due_at ON schedule_fires (due_at);

CREATE TABLE changes (
    id VARCHAR(32) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    kind VARCHAR(20) NOT NULL,
    "key" VARCHAR(255) NOT NULL,
    title VARCHAR(200) NOT NULL,
    "before" $JSON,
    "after" VARCHAR(64) DEFAULT '' NOT NULL,
    work_id VARCHAR(36) DEFAULT '' NOT NULL,
    run_id $UUID,
    undoes VARCHAR(32) DEFAULT '' NOT NULL,
    undone_at $TIMESTAMP,
    created_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_changes PRIMARY KEY (id),
    CONSTRAINT fk_changes_user_id FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE INDEX ix_changes_user_id_kind_id ON changes (user_id, kind, id);
CREATE INDEX ix_changes_user_id_id ON changes (user_id, id);
CREATE INDEX ix_changes_created_at ON changes (created_at);

CREATE TABLE web_addresses (
    root_id VARCHAR(36) NOT NULL,
    addresses $JSON NOT NULL,
    fetches INTEGER DEFAULT 0 NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_web_addresses PRIMARY KEY (root_id)
);
CREATE INDEX ix_web_addresses_created_at ON web_addresses (created_at);

CREATE TABLE mcp_pins (
    server VARCHAR(64) NOT NULL,
    tool VARCHAR(200) NOT NULL,
    approved_hash VARCHAR(64) DEFAULT '' NOT NULL,
    approved $JSON,
    offered_hash VARCHAR(64) NOT NULL,
    offered $JSON NOT NULL,
    offered_at $TIMESTAMP NOT NULL,
    approved_at $TIMESTAMP,
    approved_by VARCHAR(255) DEFAULT '' NOT NULL,
    CONSTRAINT pk_mcp_pins PRIMARY KEY (server, tool)
);

CREATE TABLE slack_installs (
    client_id VARCHAR(50) NOT NULL,
    workspace VARCHAR(50) NOT NULL,
    enterprise VARCHAR(50) DEFAULT '' NOT NULL,
    bot_user VARCHAR(50) NOT NULL,
    bot VARCHAR(50) DEFAULT '' NOT NULL,
    token TEXT NOT NULL,
    installed_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_slack_installs PRIMARY KEY (client_id, workspace)
);

CREATE TABLE slack_states (
    state VARCHAR(50) NOT NULL,
    created_at $TIMESTAMP NOT NULL,
    CONSTRAINT pk_slack_states PRIMARY KEY (state)
);
CREATE INDEX ix_slack_states_created_at ON slack_states (created_at);
