-- All state is in these rows. Every key begins with the run's id, a UUIDv7, so that keys grow with
-- time.

-- The request for a run. Never changed.
create table run (
    id              uuid        not null,
    namespace       text        not null,
    request_id      text        not null,
    -- Digest of the whole request; it distinguishes a repeated request from a different one.
    request_digest  text        not null,
    goal            text        not null,
    driver          text        not null,
    workspace       text        not null,
    limits          json        not null,
    policy          json        not null,
    labels          jsonb       not null,
    -- W3C trace context: every service links its spans to it, even days later.
    trace_parent    text        not null,
    created_at      timestamptz not null,
    constraint run_pkey primary key (id),
    constraint run_namespace_filled check (namespace <> ''),
    constraint run_driver_known check (driver in ('script', 'model', 'remote'))
);

create unique index run_request_once on run (namespace, request_id) where request_id <> '';
create index run_newest on run (namespace, id desc);

-- A plan revision. Never changed.
create table plan (
    run_id        uuid        not null,
    revision      integer     not null,
    digest        text        not null,
    parent_digest text        not null,
    reason        text        not null,
    body          json        not null,
    created_at    timestamptz not null,
    constraint plan_pkey primary key (run_id, revision),
    constraint plan_revision_positive check (revision > 0)
);

-- The invariants of every execution, each with a name. One function, because the server parses each
-- check of a table again at every write: as separate checks, they took a third of the time of an
-- update.
create function execution_keeps_its_rules(
    state text, blocked_from text, lease_owner uuid, ready_at timestamptz, deadline_at timestamptz,
    step_states text, wait json, wait_ids uuid[], terminal json, version bigint, sequence bigint,
    lease_epoch bigint
) returns boolean language plpgsql immutable parallel safe as $$
declare
    broken constant text := case
        when state not in ('INTAKE', 'PLANNING', 'EXECUTING', 'VERIFYING', 'RECOVERING', 'BLOCKED',
                           'DONE', 'FAILED', 'CANCELLED')
            then 'execution_state_known'
        when (state = 'BLOCKED') <> (blocked_from is not null)
            then 'execution_blocked_remembers'
        when state = 'BLOCKED' and wait is null
            then 'execution_blocked_says_why'
        when (wait is null) <> (wait_ids is null)
            then 'execution_waits_are_named'
        when (state in ('DONE', 'FAILED', 'CANCELLED')) <> (terminal is not null)
            then 'execution_terminal_says_why'
        when terminal is not null
             and (lease_owner is not null or ready_at is not null or deadline_at is not null)
            then 'execution_terminal_is_at_rest'
        when state = 'BLOCKED' and lease_owner is not null
            then 'execution_blocked_holds_no_lease'
        when ltrim(step_states, 'pruwdfbsc') <> ''
            then 'execution_step_states_known'
        -- A step runs only under a lease.
        when lease_owner is null and position('u' in step_states) > 0
            then 'execution_running_is_leased'
        when state = 'DONE' and ltrim(step_states, 'ds') <> ''
            then 'execution_done_left_nothing_open'
        when version <= 0 or sequence < 0 or lease_epoch < 0
            then 'execution_numbers_grow'
    end;
begin
    if broken is not null then
        raise exception 'a row of "execution" breaks the rule "%"', broken
            using errcode = 'check_violation', table = 'execution', constraint = broken;
    end if;
    return true;
end
$$;

-- The mutable state of a run: one row, updated in place once per turn. No column that changes with
-- every turn is indexed, so those updates stay inside the page (HOT).
create table execution (
    run_id        uuid        not null,
    -- Compared as bytes: no list is sorted by it for people.
    namespace     text        collate "C" not null,
    state         text        not null,
    blocked_from  text,
    version       bigint      not null,
    sequence      bigint      not null,
    priority      smallint    not null,
    ready_at      timestamptz,
    lease_owner   uuid,
    lease_epoch   bigint      not null,
    plan_revision integer     not null,
    -- One letter per step, in the plan's order: p(ending) r(eady) u (running) w(aiting) d(one)
    -- f(ailed) b(locked) s(kipped) c(ancelled)
    step_states   text        not null,
    -- Counters, and the state of open steps.
    progress      json        not null,
    -- The wait that is shown for the run. What each step waits for is in its progress.
    wait          json,
    -- The ids of all waits, so that an answer finds its run.
    wait_ids      uuid[],
    terminal      json,
    deadline_at   timestamptz,
    updated_at    timestamptz not null,
    constraint execution_pkey primary key (run_id),
    constraint execution_keeps_its_rules check (execution_keeps_its_rules(
        state, blocked_from, lease_owner, ready_at, deadline_at, step_states, wait, wait_ids,
        terminal, version, sequence, lease_epoch))
) with (
    fillfactor = 60,
    -- Finished runs make the table large, so a vacuum must not wait for dead rows in proportion to
    -- it.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000
);

-- By queue: the waiting runs of one namespace and one priority.
create index execution_claimable on execution (namespace, priority, ready_at)
    where ready_at is not null and lease_owner is null;
create index execution_leased on execution (lease_owner) where lease_owner is not null;
create index execution_deadline on execution (deadline_at) where deadline_at is not null;
create index execution_waits on execution using gin (wait_ids) where wait_ids is not null;

-- The events, one row for all that were committed together. `sequence` is the number of the row's
-- last entry, and the first one's is `sequence - (number of entries) + 1`: numbered from 1 without
-- gaps. `entries` is JSON, a list of changes: [[microseconds after `at`, span id, entry, ...],
-- ...]. It is text, because only Surety writes it and a JSON type would be parsed at every insert.
create table journal (
    run_id     uuid        not null,
    sequence   bigint      not null,
    at         timestamptz not null,
    -- The actor: a service's process.
    actor      text        not null,
    entries    text        not null,
    constraint journal_pkey primary key (run_id, sequence),
    constraint journal_sequence_positive check (sequence > 0)
) partition by range (run_id);

-- Ranges of ids are times: planners create a partition for each range in advance, and drop it once
-- all its runs are expired. The default one takes the rest, so that no insert fails for want of a
-- partition.
create table journal_default partition of journal default
    -- As for every partition: a compressed row of less than a page is stored in one piece.
    with (toast_tuple_target = 8160);

-- Outputs too large for the journal, keyed by the digest of their content.
create table artifact (
    digest     text        not null,
    bytes      bigint      not null,
    body       bytea       not null,
    -- When a run last stored it.
    stored_at  timestamptz not null,
    constraint artifact_pkey primary key (digest),
    constraint artifact_digest_is_sha256 check (digest ~ '^[0-9a-f]{64}$')
);

-- The runs that may refer to an artifact: it is kept as long as there is one.
create table artifact_use (
    run_id uuid not null,
    digest text not null,
    constraint artifact_use_pkey primary key (run_id, digest),
    constraint artifact_use_run_fkey foreign key (run_id) references run (id),
    constraint artifact_use_digest_fkey foreign key (digest) references artifact (digest)
);

create index artifact_use_by_digest on artifact_use (digest);

-- The better compression, if this server has it.
do $$
begin
    alter table journal alter column entries set compression lz4;
    alter table journal_default alter column entries set compression lz4;
    alter table artifact alter column body set compression lz4;
exception
    when feature_not_supported then null;
end
$$;

-- One row per executor process: its heartbeat extends all its leases.
create table executor (
    id           uuid        not null,
    name         text        not null,
    slots        integer     not null,
    started_at   timestamptz not null,
    heartbeat_at timestamptz not null,
    constraint executor_pkey primary key (id)
) with (fillfactor = 50);

-- The metric for autoscalers: one row per namespace.
create view executor_backlog as
    select namespace,
           count(*)                                                  as ready_runs,
           coalesce(extract(epoch from now() - min(ready_at)), 0)    as oldest_age_seconds
    from execution
    where ready_at is not null and lease_owner is null
    group by namespace;
