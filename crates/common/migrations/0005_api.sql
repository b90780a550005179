-- The answers of calls that changed something. A repeated call gets the first answer.
create table request_outcome (
    -- What the call changed: the id of a run, a wait or a token, or namespace_policy/NAME.
    subject        text        not null,
    -- The name of the caller's identity: two callers may choose the same key.
    identity       text        not null,
    -- The caller's idempotency key.
    request_id     text        not null,
    -- The run that the call changed, if it changed one.
    run_id         uuid,
    method         text        not null,
    -- Digest of the whole request. It distinguishes a repeated call from a different one.
    request_digest text        not null,
    -- The encoded response.
    response       bytea       not null,
    created_at     timestamptz not null,
    constraint request_outcome_pkey primary key (subject, identity, request_id),
    constraint request_outcome_named check (request_id <> '')
);

create index request_outcome_age on request_outcome (created_at);

-- An index for each filter of a list of runs. run_newest serves the filter by namespace, and run_pkey the
-- one by time, because ids grow with time. No index holds the state: it changes during a run, and those
-- updates stay inside the page (HOT). The state of an ended run follows from its stop reason, and
-- execution_deadline has the runs that have not ended.
-- Read from the text, where it is the first key: `->>` refuses a document that contains U+0000.
create index execution_by_stop_reason
    on execution (substring(terminal::text from '^\{"stop_reason" ?: ?"([a-z_]+)"'), run_id desc)
    where terminal is not null;
create index run_by_label on run using gin (labels jsonb_path_ops) where labels <> '{}'::jsonb;
