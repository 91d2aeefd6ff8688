CREATE TABLE alembic_version (
    version_num character varying(32) NOT NULL
)
--
CREATE TABLE approvals (
    id character varying(32) NOT NULL,
    user_id character varying(255) NOT NULL,
    channel character varying(50) NOT NULL,
    place_workspace character varying(100) DEFAULT ''::character varying NOT NULL,
    place_channel character varying(255) DEFAULT ''::character varying NOT NULL,
    place_thread character varying(255) DEFAULT ''::character varying NOT NULL,
    place_message character varying(255) DEFAULT ''::character varying NOT NULL,
    conversation_id character varying(32) DEFAULT ''::character varying NOT NULL,
    run_id uuid,
    tool character varying(100) NOT NULL,
    arguments jsonb NOT NULL,
    fingerprint character varying(64) NOT NULL,
    context jsonb NOT NULL,
    status character varying(20) DEFAULT 'open'::character varying NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    answered_at timestamp with time zone,
    answered_by character varying(255),
    shown_at timestamp with time zone,
    done_at timestamp with time zone,
    CONSTRAINT ck_approvals_status CHECK (((status)::text = ANY ((ARRAY['open'::character varying, 'approved'::character varying, 'denied'::character varying, 'expired'::character varying])::text[])))
)
--
CREATE TABLE audit (
    id character varying(32) NOT NULL,
    user_id character varying(255) NOT NULL,
    action character varying(50) NOT NULL,
    subject character varying(255) NOT NULL,
    detail text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone NOT NULL
)
--
CREATE TABLE changes (
    id character varying(32) NOT NULL,
    user_id character varying(255) NOT NULL,
    kind character varying(20) NOT NULL,
    key character varying(255) NOT NULL,
    title character varying(200) NOT NULL,
    before jsonb,
    after character varying(64) DEFAULT ''::character varying NOT NULL,
    work_id character varying(36) DEFAULT ''::character varying NOT NULL,
    run_id uuid,
    undoes character varying(32) DEFAULT ''::character varying NOT NULL,
    undone_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL
)
--
CREATE TABLE commands (
    id character varying(32) NOT NULL,
    user_id character varying(255) NOT NULL,
    channel character varying(50) NOT NULL,
    place_workspace character varying(100) DEFAULT ''::character varying NOT NULL,
    place_channel character varying(255) DEFAULT ''::character varying NOT NULL,
    place_thread character varying(255) DEFAULT ''::character varying NOT NULL,
    place_message character varying(255) DEFAULT ''::character varying NOT NULL,
    role character varying(10) DEFAULT 'user'::character varying NOT NULL,
    text text NOT NULL,
    conversation_id character varying(32) DEFAULT ''::character varying NOT NULL,
    worker_id character varying(64) NOT NULL,
    attempt integer DEFAULT 1 NOT NULL,
    applied_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL
)
--
CREATE TABLE conversations (
    id character varying(32) NOT NULL,
    user_id character varying(255) NOT NULL,
    channel character varying(50) NOT NULL,
    place_workspace character varying(100) DEFAULT ''::character varying NOT NULL,
    place_channel character varying(255) DEFAULT ''::character varying NOT NULL,
    place_thread character varying(255) DEFAULT ''::character varying NOT NULL,
    place_message character varying(255) DEFAULT ''::character varying NOT NULL,
    active_turn_id character varying(32),
    created_at timestamp with time zone NOT NULL,
    closed_at timestamp with time zone,
    model character varying(255) DEFAULT ''::character varying NOT NULL
)
--
CREATE TABLE files (
    id character varying(32) NOT NULL,
    message_id character varying(32) NOT NULL,
    name character varying(255) NOT NULL,
    media_type character varying(100) DEFAULT ''::character varying NOT NULL,
    data bytea NOT NULL,
    created_at timestamp with time zone NOT NULL
)
--
CREATE TABLE listeners (
    name character varying(255) NOT NULL,
    heard_at timestamp with time zone NOT NULL
)
--
CREATE TABLE mcp_pins (
    server character varying(64) NOT NULL,
    tool character varying(200) NOT NULL,
    approved_hash character varying(64) DEFAULT ''::character varying NOT NULL,
    approved jsonb,
    offered_hash character varying(64) NOT NULL,
    offered jsonb NOT NULL,
    offered_at timestamp with time zone NOT NULL,
    approved_at timestamp with time zone,
    approved_by character varying(255) DEFAULT ''::character varying NOT NULL
)
--
CREATE TABLE memories (
    id character varying(36) NOT NULL,
    user_id character varying(255) NOT NULL,
    number integer NOT NULL,
    text text NOT NULL,
    origin character varying(20) NOT NULL,
    source character varying(200) DEFAULT ''::character varying NOT NULL,
    conversation_id character varying(32) DEFAULT ''::character varying NOT NULL,
    message_id character varying(32) DEFAULT ''::character varying NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT ck_memories_origin CHECK (((origin)::text = ANY ((ARRAY['said'::character varying, 'confirmed'::character varying])::text[])))
)
--
CREATE TABLE messages (
    id character varying(32) NOT NULL,
    conversation_id character varying(32) NOT NULL,
    role character varying(20) NOT NULL,
    text text NOT NULL,
    turn_id character varying(32),
    run_id uuid,
    created_at timestamp with time zone NOT NULL,
    quoted jsonb,
    foreign_content boolean DEFAULT false NOT NULL
)
--
CREATE TABLE notes (
    id character varying(36) NOT NULL,
    user_id character varying(255) NOT NULL,
    number bigint NOT NULL,
    title character varying(200) DEFAULT ''::character varying NOT NULL,
    text text NOT NULL,
    created_at timestamp with time zone NOT NULL
)
--
CREATE TABLE outbox (
    key character varying(36) NOT NULL,
    user_id character varying(255) NOT NULL,
    channel character varying(50) NOT NULL,
    place_workspace character varying(100) DEFAULT ''::character varying NOT NULL,
    place_channel character varying(255) DEFAULT ''::character varying NOT NULL,
    place_thread character varying(255) DEFAULT ''::character varying NOT NULL,
    place_message character varying(255) DEFAULT ''::character varying NOT NULL,
    run_id uuid,
    title text DEFAULT ''::text NOT NULL,
    text text NOT NULL,
    footer text DEFAULT ''::text NOT NULL,
    status character varying(20) DEFAULT 'pending'::character varying NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    maybe_repeated boolean DEFAULT false NOT NULL,
    worker_id character varying(64) DEFAULT ''::character varying NOT NULL,
    last_error text DEFAULT ''::text NOT NULL,
    message_ids jsonb DEFAULT '[]'::jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    first_tried_at timestamp with time zone,
    delivered_at timestamp with time zone,
    CONSTRAINT ck_outbox_status CHECK (((status)::text = ANY ((ARRAY['held'::character varying, 'pending'::character varying, 'sending'::character varying, 'waiting'::character varying, 'delivered'::character varying, 'blocked'::character varying, 'dismissed'::character varying])::text[])))
)
--
CREATE TABLE run_messages (
    id character varying(36) NOT NULL,
    run_id uuid NOT NULL,
    text text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    read_at_step integer
)
--
CREATE TABLE run_questions (
    id character varying(32) NOT NULL,
    run_id uuid NOT NULL,
    user_id character varying(255) NOT NULL,
    channel character varying(50) NOT NULL,
    place_workspace character varying(100) DEFAULT ''::character varying NOT NULL,
    place_channel character varying(255) DEFAULT ''::character varying NOT NULL,
    place_thread character varying(255) DEFAULT ''::character varying NOT NULL,
    place_message character varying(255) DEFAULT ''::character varying NOT NULL,
    kind character varying(10) NOT NULL,
    tool character varying(200) DEFAULT ''::character varying NOT NULL,
    fingerprint character varying(64) DEFAULT ''::character varying NOT NULL,
    text text NOT NULL,
    options jsonb DEFAULT '[]'::jsonb NOT NULL,
    status character varying(20) DEFAULT 'open'::character varying NOT NULL,
    whole_run boolean DEFAULT false NOT NULL,
    answer text DEFAULT ''::text NOT NULL,
    used_at timestamp with time zone,
    shown_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    answered_at timestamp with time zone,
    answered_by character varying(255),
    message_id character varying(255) DEFAULT ''::character varying NOT NULL,
    shown_with character varying(32) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT ck_run_questions_kind CHECK (((kind)::text = ANY ((ARRAY['permit'::character varying, 'input'::character varying])::text[]))),
    CONSTRAINT ck_run_questions_status CHECK (((status)::text = ANY ((ARRAY['open'::character varying, 'yes'::character varying, 'no'::character varying, 'expired'::character varying, 'withdrawn'::character varying])::text[])))
)
--
CREATE TABLE schedule_fires (
    schedule_id character varying(36) NOT NULL,
    due_at timestamp with time zone NOT NULL,
    status character varying(20) DEFAULT 'claimed'::character varying NOT NULL,
    run_id uuid,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT ck_schedule_fires_status CHECK (((status)::text = ANY ((ARRAY['claimed'::character varying, 'started'::character varying, 'counted'::character varying, 'refused'::character varying, 'skipped'::character varying, 'blocked'::character varying])::text[])))
)
--
CREATE TABLE schedules (
    id character varying(36) NOT NULL,
    user_id character varying(255) NOT NULL,
    channel character varying(50) NOT NULL,
    place_workspace character varying(100) DEFAULT ''::character varying NOT NULL,
    place_channel character varying(255) DEFAULT ''::character varying NOT NULL,
    place_thread character varying(255) DEFAULT ''::character varying NOT NULL,
    place_message character varying(255) DEFAULT ''::character varying NOT NULL,
    number integer NOT NULL,
    label character varying(100) DEFAULT ''::character varying NOT NULL,
    task text NOT NULL,
    agent character varying(64) DEFAULT ''::character varying NOT NULL,
    cron character varying(100) DEFAULT ''::character varying NOT NULL,
    timezone character varying(64) NOT NULL,
    status character varying(20) DEFAULT 'active'::character varying NOT NULL,
    due_at timestamp with time zone,
    failures integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT ck_schedules_status CHECK (((status)::text = ANY ((ARRAY['active'::character varying, 'paused'::character varying, 'done'::character varying, 'cancelled'::character varying, 'failed'::character varying])::text[])))
)
--
CREATE TABLE seen_events (
    platform character varying(50) NOT NULL,
    event_id character varying(255) NOT NULL,
    created_at timestamp with time zone NOT NULL
)
--
CREATE TABLE slack_installs (
    client_id character varying(50) NOT NULL,
    workspace character varying(50) NOT NULL,
    enterprise character varying(50) DEFAULT ''::character varying NOT NULL,
    bot_user character varying(50) NOT NULL,
    bot character varying(50) DEFAULT ''::character varying NOT NULL,
    token text NOT NULL,
    installed_at timestamp with time zone NOT NULL
)
--
CREATE TABLE slack_states (
    state character varying(50) NOT NULL,
    created_at timestamp with time zone NOT NULL
)
--
CREATE TABLE steps (
    work_id character varying(36) NOT NULL,
    seq integer NOT NULL,
    kind character varying(20) NOT NULL,
    body jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL
)
--
CREATE TABLE subagent_runs (
    id uuid NOT NULL,
    user_id character varying(255) NOT NULL,
    channel character varying(50) NOT NULL,
    place_workspace character varying(100) DEFAULT ''::character varying NOT NULL,
    place_channel character varying(255) DEFAULT ''::character varying NOT NULL,
    place_thread character varying(255) DEFAULT ''::character varying NOT NULL,
    place_message character varying(255) DEFAULT ''::character varying NOT NULL,
    conversation_id character varying(32) DEFAULT ''::character varying NOT NULL,
    parent_message_id character varying(32) DEFAULT ''::character varying NOT NULL,
    parent_run_id uuid,
    batch_id character varying(36) DEFAULT ''::character varying NOT NULL,
    number integer NOT NULL,
    label character varying(100) DEFAULT ''::character varying NOT NULL,
    agent character varying(64) DEFAULT 'general'::character varying NOT NULL,
    task text NOT NULL,
    context text DEFAULT ''::text NOT NULL,
    instructions text DEFAULT ''::text NOT NULL,
    status character varying(20) DEFAULT 'accepted'::character varying NOT NULL,
    mode character varying(10) DEFAULT 'async'::character varying NOT NULL,
    depth integer DEFAULT 1 NOT NULL,
    announce character varying(10) DEFAULT 'result'::character varying NOT NULL,
    model character varying(255),
    provider character varying(100),
    result text,
    error text,
    input_tokens integer DEFAULT 0 NOT NULL,
    output_tokens integer DEFAULT 0 NOT NULL,
    token_budget integer NOT NULL,
    reserved_tokens integer DEFAULT 0 NOT NULL,
    tool_call_count integer DEFAULT 0 NOT NULL,
    max_steps integer NOT NULL,
    timeout_ms integer NOT NULL,
    seconds_used double precision DEFAULT 0 NOT NULL,
    transcript jsonb DEFAULT '[]'::jsonb NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    allowed_tools text[],
    blocked_tools text[],
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    worker_id character varying(64) DEFAULT ''::character varying NOT NULL,
    cancel_requested_at timestamp with time zone,
    cancelled_by character varying(255) DEFAULT ''::character varying NOT NULL,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    updated_at timestamp with time zone NOT NULL,
    completed_at timestamp with time zone,
    archived_at timestamp with time zone,
    card_message_id character varying(255) DEFAULT ''::character varying NOT NULL,
    ready_at timestamp with time zone,
    discounted_tokens integer DEFAULT 0 NOT NULL,
    degraded boolean DEFAULT false NOT NULL,
    begun_at timestamp with time zone,
    CONSTRAINT ck_subagent_runs_announce CHECK (((announce)::text = ANY ((ARRAY['result'::character varying, 'summary'::character varying, 'silent'::character varying])::text[]))),
    CONSTRAINT ck_subagent_runs_mode CHECK (((mode)::text = ANY ((ARRAY['sync'::character varying, 'async'::character varying])::text[]))),
    CONSTRAINT ck_subagent_runs_status CHECK (((status)::text = ANY ((ARRAY['queued'::character varying, 'accepted'::character varying, 'running'::character varying, 'waiting_approval'::character varying, 'waiting_input'::character varying, 'completed'::character varying, 'failed'::character varying, 'timeout'::character varying, 'cancelled'::character varying, 'budget_exceeded'::character varying, 'max_tool_calls'::character varying, 'max_steps'::character varying, 'stalled'::character varying, 'lost'::character varying])::text[])))
)
--
CREATE TABLE todos (
    id character varying(36) NOT NULL,
    user_id character varying(255) NOT NULL,
    items jsonb NOT NULL,
    updated_at timestamp with time zone NOT NULL
)
--
CREATE TABLE turns (
    id character varying(32) NOT NULL,
    conversation_id character varying(32) NOT NULL,
    user_id character varying(255) NOT NULL,
    channel character varying(50) NOT NULL,
    place_workspace character varying(100) DEFAULT ''::character varying NOT NULL,
    place_channel character varying(255) DEFAULT ''::character varying NOT NULL,
    place_thread character varying(255) DEFAULT ''::character varying NOT NULL,
    place_message character varying(255) DEFAULT ''::character varying NOT NULL,
    message_id character varying(32) NOT NULL,
    status character varying(20) DEFAULT 'queued'::character varying NOT NULL,
    kind character varying(20) DEFAULT 'message'::character varying NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    reply_message_id character varying(255) DEFAULT ''::character varying NOT NULL,
    stop_requested_at timestamp with time zone,
    input_tokens integer DEFAULT 0 NOT NULL,
    output_tokens integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    role character varying(10) DEFAULT 'user'::character varying NOT NULL,
    held_until timestamp with time zone,
    said_at timestamp with time zone,
    begun_at timestamp with time zone,
    worker_id character varying(64) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT ck_turns_status CHECK (((status)::text = ANY ((ARRAY['queued'::character varying, 'running'::character varying, 'done'::character varying, 'failed'::character varying, 'stopped'::character varying])::text[])))
)
--
CREATE TABLE users (
    id character varying(255) NOT NULL,
    platform character varying(50) NOT NULL,
    workspace character varying(100) DEFAULT ''::character varying NOT NULL,
    account character varying(255) NOT NULL,
    name character varying(255) DEFAULT ''::character varying NOT NULL,
    run_counter integer DEFAULT 0 NOT NULL,
    last_admitted_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL
)
--
CREATE TABLE web_addresses (
    root_id character varying(36) NOT NULL,
    addresses jsonb NOT NULL,
    fetches integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone NOT NULL
)
--
CREATE TABLE whiteboard (
    board_id uuid NOT NULL,
    key character varying(200) NOT NULL,
    value text NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    work_id character varying(36)
)
--
CREATE TABLE workers (
    id character varying(64) NOT NULL,
    platforms text[] NOT NULL,
    started_at timestamp with time zone NOT NULL,
    beat_at timestamp with time zone NOT NULL,
    stopped_at timestamp with time zone,
    ended_platforms jsonb,
    leaving_at timestamp with time zone,
    crashed_at timestamp with time zone
)
--
ALTER TABLE ONLY alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
--
ALTER TABLE ONLY approvals
    ADD CONSTRAINT pk_approvals PRIMARY KEY (id)
--
ALTER TABLE ONLY audit
    ADD CONSTRAINT pk_audit PRIMARY KEY (id)
--
ALTER TABLE ONLY changes
    ADD CONSTRAINT pk_changes PRIMARY KEY (id)
--
ALTER TABLE ONLY commands
    ADD CONSTRAINT pk_commands PRIMARY KEY (id)
--
ALTER TABLE ONLY conversations
    ADD CONSTRAINT pk_conversations PRIMARY KEY (id)
--
ALTER TABLE ONLY files
    ADD CONSTRAINT pk_files PRIMARY KEY (id)
--
ALTER TABLE ONLY listeners
    ADD CONSTRAINT pk_listeners PRIMARY KEY (name)
--
ALTER TABLE ONLY mcp_pins
    ADD CONSTRAINT pk_mcp_pins PRIMARY KEY (server, tool)
--
ALTER TABLE ONLY memories
    ADD CONSTRAINT pk_memories PRIMARY KEY (id)
--
ALTER TABLE ONLY messages
    ADD CONSTRAINT pk_messages PRIMARY KEY (id)
--
ALTER TABLE ONLY notes
    ADD CONSTRAINT pk_notes PRIMARY KEY (id)
--
ALTER TABLE ONLY outbox
    ADD CONSTRAINT pk_outbox PRIMARY KEY (key)
--
ALTER TABLE ONLY run_messages
    ADD CONSTRAINT pk_run_messages PRIMARY KEY (id)
--
ALTER TABLE ONLY run_questions
    ADD CONSTRAINT pk_run_questions PRIMARY KEY (id)
--
ALTER TABLE ONLY schedule_fires
    ADD CONSTRAINT pk_schedule_fires PRIMARY KEY (schedule_id, due_at)
--
ALTER TABLE ONLY schedules
    ADD CONSTRAINT pk_schedules PRIMARY KEY (id)
--
ALTER TABLE ONLY seen_events
    ADD CONSTRAINT pk_seen_events PRIMARY KEY (platform, event_id)
--
ALTER TABLE ONLY slack_installs
    ADD CONSTRAINT pk_slack_installs PRIMARY KEY (client_id, workspace)
--
ALTER TABLE ONLY slack_states
    ADD CONSTRAINT pk_slack_states PRIMARY KEY (state)
--
ALTER TABLE ONLY steps
    ADD CONSTRAINT pk_steps PRIMARY KEY (work_id, seq)
--
ALTER TABLE ONLY subagent_runs
    ADD CONSTRAINT pk_subagent_runs PRIMARY KEY (id)
--
ALTER TABLE ONLY todos
    ADD CONSTRAINT pk_todos PRIMARY KEY (id)
--
ALTER TABLE ONLY turns
    ADD CONSTRAINT pk_turns PRIMARY KEY (id)
--
ALTER TABLE ONLY users
    ADD CONSTRAINT pk_users PRIMARY KEY (id)
--
ALTER TABLE ONLY web_addresses
    ADD CONSTRAINT pk_web_addresses PRIMARY KEY (root_id)
--
ALTER TABLE ONLY whiteboard
    ADD CONSTRAINT pk_whiteboard PRIMARY KEY (board_id, key)
--
ALTER TABLE ONLY workers
    ADD CONSTRAINT pk_workers PRIMARY KEY (id)
--
ALTER TABLE ONLY memories
    ADD CONSTRAINT uq_memories_user_id_number UNIQUE (user_id, number)
--
ALTER TABLE ONLY notes
    ADD CONSTRAINT uq_notes_user_id_number UNIQUE (user_id, number)
--
ALTER TABLE ONLY schedules
    ADD CONSTRAINT uq_schedules_user_id_number UNIQUE (user_id, number)
--
ALTER TABLE ONLY subagent_runs
    ADD CONSTRAINT uq_subagent_runs_user_id_number UNIQUE (user_id, number)
--
ALTER TABLE ONLY users
    ADD CONSTRAINT uq_users_platform_workspace_account UNIQUE (platform, workspace, account)
--
CREATE INDEX ix_approvals_created_at ON approvals USING btree (created_at)
--
CREATE INDEX ix_approvals_status_expires_at ON approvals USING btree (status, expires_at)
--
CREATE INDEX ix_approvals_user_id_status ON approvals USING btree (user_id, status)
--
CREATE INDEX ix_audit_created_at ON audit USING btree (created_at)
--
CREATE INDEX ix_changes_created_at ON changes USING btree (created_at)
--
CREATE INDEX ix_changes_user_id_id ON changes USING btree (user_id, id)
--
CREATE INDEX ix_changes_user_id_kind_id ON changes USING btree (user_id, kind, id)
--
CREATE UNIQUE INDEX ix_conversations_open ON conversations USING btree (user_id, channel, place_workspace, place_channel, place_thread) WHERE (closed_at IS NULL)
--
CREATE INDEX ix_conversations_place ON conversations USING btree (channel, place_workspace, place_channel, place_thread, user_id, id)
--
CREATE INDEX ix_conversations_user_id ON conversations USING btree (user_id)
--
CREATE INDEX ix_files_created_at ON files USING btree (created_at)
--
CREATE INDEX ix_files_message_id ON files USING btree (message_id)
--
CREATE INDEX ix_messages_conversation_id_id ON messages USING btree (conversation_id, id)
--
CREATE INDEX ix_messages_created_at ON messages USING btree (created_at)
--
CREATE INDEX ix_messages_run_id ON messages USING btree (run_id) WHERE (run_id IS NOT NULL)
--
CREATE INDEX ix_notes_words ON notes USING gin (to_tsvector('simple'::regconfig, translate((((title)::text || ' '::text) || text), '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~'::text, '                                '::text)))
--
CREATE INDEX ix_outbox_created_at ON outbox USING btree (created_at)
--
CREATE INDEX ix_outbox_run_id ON outbox USING btree (run_id)
--
CREATE INDEX ix_outbox_status_due_at ON outbox USING btree (status, due_at)
--
CREATE INDEX ix_outbox_user_id_status ON outbox USING btree (user_id, status)
--
CREATE INDEX ix_run_messages_run_id_read_at_step ON run_messages USING btree (run_id, read_at_step)
--
CREATE INDEX ix_run_questions_run_id ON run_questions USING btree (run_id)
--
CREATE INDEX ix_run_questions_status_expires_at ON run_questions USING btree (status, expires_at)
--
CREATE INDEX ix_run_questions_user_id_status ON run_questions USING btree (user_id, status)
--
CREATE INDEX ix_schedule_fires_due_at ON schedule_fires USING btree (due_at)
--
CREATE INDEX ix_schedule_fires_status ON schedule_fires USING btree (status)
--
CREATE INDEX ix_schedules_ended_at ON schedules USING btree (ended_at) WHERE (ended_at IS NOT NULL)
--
CREATE INDEX ix_schedules_status_due_at ON schedules USING btree (status, due_at)
--
CREATE INDEX ix_seen_events_created_at ON seen_events USING btree (created_at)
--
CREATE INDEX ix_slack_states_created_at ON slack_states USING btree (created_at)
--
CREATE INDEX ix_steps_created_at ON steps USING btree (created_at)
--
CREATE INDEX ix_subagent_runs_batch_id ON subagent_runs USING btree (batch_id) WHERE ((batch_id)::text <> ''::text)
--
CREATE INDEX ix_subagent_runs_completed_at ON subagent_runs USING btree (completed_at) WHERE (completed_at IS NOT NULL)
--
CREATE INDEX ix_subagent_runs_conversation_id ON subagent_runs USING btree (conversation_id)
--
CREATE INDEX ix_subagent_runs_created_at ON subagent_runs USING btree (created_at)
--
CREATE INDEX ix_subagent_runs_parent_run_id ON subagent_runs USING btree (parent_run_id)
--
CREATE INDEX ix_subagent_runs_status ON subagent_runs USING btree (status)
--
CREATE INDEX ix_subagent_runs_unarchived ON subagent_runs USING btree (completed_at) WHERE (archived_at IS NULL)
--
CREATE INDEX ix_subagent_runs_user_id_created_at ON subagent_runs USING btree (user_id, created_at)
--
CREATE INDEX ix_subagent_runs_user_id_status ON subagent_runs USING btree (user_id, status)
--
CREATE INDEX ix_todos_updated_at ON todos USING btree (updated_at)
--
CREATE INDEX ix_todos_user_id ON todos USING btree (user_id)
--
CREATE INDEX ix_turns_conversation_id_status ON turns USING btree (conversation_id, status)
--
CREATE INDEX ix_turns_created_at ON turns USING btree (created_at)
--
CREATE INDEX ix_turns_ended_at ON turns USING btree (ended_at) WHERE (ended_at IS NOT NULL)
--
CREATE INDEX ix_turns_status ON turns USING btree (status)
--
CREATE INDEX ix_turns_user_id ON turns USING btree (user_id)
--
CREATE INDEX ix_web_addresses_created_at ON web_addresses USING btree (created_at)
--
ALTER TABLE ONLY approvals
    ADD CONSTRAINT fk_approvals_user_id FOREIGN KEY (user_id) REFERENCES users(id)
--
ALTER TABLE ONLY changes
    ADD CONSTRAINT fk_changes_user_id FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
--
ALTER TABLE ONLY commands
    ADD CONSTRAINT fk_commands_user_id FOREIGN KEY (user_id) REFERENCES users(id)
--
ALTER TABLE ONLY conversations
    ADD CONSTRAINT fk_conversations_user_id FOREIGN KEY (user_id) REFERENCES users(id)
--
ALTER TABLE ONLY files
    ADD CONSTRAINT fk_files_message_id FOREIGN KEY (message_id) REFERENCES messages(id)
--
ALTER TABLE ONLY memories
    ADD CONSTRAINT fk_memories_user_id FOREIGN KEY (user_id) REFERENCES users(id)
--
ALTER TABLE ONLY messages
    ADD CONSTRAINT fk_messages_conversation_id FOREIGN KEY (conversation_id) REFERENCES conversations(id)
--
ALTER TABLE ONLY notes
    ADD CONSTRAINT fk_notes_user_id FOREIGN KEY (user_id) REFERENCES users(id)
--
ALTER TABLE ONLY outbox
    ADD CONSTRAINT fk_outbox_user_id FOREIGN KEY (user_id) REFERENCES users(id)
--
ALTER TABLE ONLY run_messages
    ADD CONSTRAINT fk_run_messages_run_id FOREIGN KEY (run_id) REFERENCES subagent_runs(id) ON DELETE CASCADE
--
ALTER TABLE ONLY run_questions
    ADD CONSTRAINT fk_run_questions_run_id FOREIGN KEY (run_id) REFERENCES subagent_runs(id) ON DELETE CASCADE
--
ALTER TABLE ONLY run_questions
    ADD CONSTRAINT fk_run_questions_user_id FOREIGN KEY (user_id) REFERENCES users(id)
--
ALTER TABLE ONLY schedule_fires
    ADD CONSTRAINT fk_schedule_fires_schedule_id FOREIGN KEY (schedule_id) REFERENCES schedules(id) ON DELETE CASCADE
--
ALTER TABLE ONLY schedules
    ADD CONSTRAINT fk_schedules_user_id FOREIGN KEY (user_id) REFERENCES users(id)
--
ALTER TABLE ONLY subagent_runs
    ADD CONSTRAINT fk_subagent_runs_user_id FOREIGN KEY (user_id) REFERENCES users(id)
--
ALTER TABLE ONLY todos
    ADD CONSTRAINT fk_todos_user_id FOREIGN KEY (user_id) REFERENCES users(id)
--
ALTER TABLE ONLY turns
    ADD CONSTRAINT fk_turns_conversation_id FOREIGN KEY (conversation_id) REFERENCES conversations(id)
--
ALTER TABLE ONLY turns
    ADD CONSTRAINT fk_turns_user_id FOREIGN KEY (user_id) REFERENCES users(id)
--
ALTER TABLE ONLY whiteboard
    ADD CONSTRAINT fk_whiteboard_board_id FOREIGN KEY (board_id) REFERENCES subagent_runs(id) ON DELETE CASCADE
--
INSERT INTO alembic_version VALUES ('2026112201')
