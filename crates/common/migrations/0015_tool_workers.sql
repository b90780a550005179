-- What tool workers offer, one row for each worker, namespace and tool. It stays for a while after the worker left, so
-- that calls can wait for one that restarts.
create table worker_tool (
    namespace    text        collate "C" not null,
    tool         text        collate "C" not null,
    -- The name of the worker's identity, and the worker's own.
    identity     text        collate "C" not null,
    worker_id    text        collate "C" not null,
    -- Description, schema, sample and time limit, as JSON, and the digests of the whole and of the schema.
    spec         text        not null,
    spec_digest  text        not null,
    schema_digest text       not null,
    announced_at timestamptz not null,
    -- The last sign of life.
    seen_at      timestamptz not null,
    -- Until then the worker is taken for connected: another schema is refused.
    live_until   timestamptz not null,
    constraint worker_tool_pkey primary key (namespace, tool, identity, worker_id)
);

create index worker_tool_by_worker on worker_tool (identity, worker_id);

-- Of a call that waits for a worker: its tool, and since when it is offered.
alter table wait add column tool text collate "C";
alter table wait add column offered_at timestamptz;
-- When the lease of its worker expired; the planner then decides what becomes of the call.
alter table wait add column lost_at timestamptz;
-- What the worker last reported of it.
alter table wait add column progress text;
alter table wait add column progress_percent smallint;
alter table wait add constraint wait_call_whole check (
    (kind = 'tool') = (tool is not null) and (tool is null) = (offered_at is null));

-- The offered calls of one tool in one namespace, the most urgent first.
create index wait_calls on wait (namespace, tool, priority desc, opened_at)
    where kind = 'tool' and lease_holder is null and answered_at is null and not withheld and lost_at is null;
-- The calls of one worker.
create index wait_held_calls on wait (lease_holder)
    where kind = 'tool' and lease_holder is not null and answered_at is null;
-- Leases of workers in the order of their ends, and those that have ended.
create index wait_expiring_calls on wait (lease_expires_at)
    where kind = 'tool' and lease_holder is not null and answered_at is null;
create index wait_lost_calls on wait (lost_at) where lost_at is not null;
