-- One row for each wait of a run, in the transaction that makes the run wait. A run that waits for nothing
-- has none. What is asked stands in the run's own row; this table says who supplies the answer.
create table wait (
    id               uuid        not null,
    run_id           uuid        not null,
    kind             text        not null,
    -- Compared as bytes: no list is sorted by it for people.
    namespace        text        collate "C" not null,
    priority         smallint    not null,
    opened_at        timestamptz not null,
    -- While the run is paused, the wait is offered to no participant.
    withheld         boolean     not null,
    -- The participant that supplies the answer; none while the wait is open.
    lease_holder     text,
    -- The fencing token of the last lease, from the sequence below; 0 before the first. A token is never
    -- given twice, so that it names one lease of one step.
    lease_epoch      bigint      not null default 0,
    lease_expires_at timestamptz,
    -- How long a sign of life of the participant extends its lease.
    lease_ms         integer,
    -- Set once the answer is stored in the run's row. The row stays until the answer is carried out: until
    -- then the participant keeps its lease, which the next wait of the step takes over.
    answered_at      timestamptz,
    constraint wait_pkey primary key (id),
    constraint wait_kind_known check (kind in (
        'plan', 'decision', 'tool', 'question', 'confirmation', 'acceptance', 'resume', 'timer',
        'workspace')),
    constraint wait_lease_whole check (
        (lease_holder is null) = (lease_expires_at is null) and (lease_holder is null) = (lease_ms is null)),
    constraint wait_lease_fenced check (lease_holder is null or lease_epoch > 0)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000);

create sequence wait_lease_epoch;

create index wait_by_run on wait (run_id);
-- By queue: the offered waits of one kind and namespace, the most urgent first.
create index wait_offered on wait (kind, namespace, priority desc, opened_at)
    where lease_holder is null and answered_at is null and not withheld;
create index wait_expiring on wait (lease_expires_at)
    where lease_holder is not null and answered_at is null;

-- The waits of earlier versions: which one a question was, its run's phase says well enough.
insert into wait (id, run_id, kind, namespace, priority, opened_at, withheld)
select wait_id, run_id,
       case blocked_from when 'PLANNING' then 'plan' when 'VERIFYING' then 'acceptance' else 'question' end,
       namespace, priority, updated_at, false
from execution
cross join unnest(wait_ids) as wait_id
where wait_ids is not null;

-- An answer finds its run by the key of the new table.
drop index execution_waits;
