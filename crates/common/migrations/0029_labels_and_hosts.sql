-- The labels of a wait's run, for participants that name labels. Never null once a row is stored.
alter table wait add column labels jsonb;

update wait
set labels = run.labels
from run
where run.id = wait.run_id;

-- Services of earlier versions do not know the column while they are replaced. Rows of this version name their labels, and
-- no function is called for them.
create function wait_takes_labels() returns trigger language plpgsql as $$
begin
    select labels into new.labels from run where id = new.run_id;
    return new;
end
$$;

create trigger wait_labels before insert on wait
    for each row when (new.labels is null) execute function wait_takes_labels();

-- Offered waits by label. Rows of runs without labels are not in it. Without a list of pending entries, which each scan would
-- read.
create index wait_offered_by_label on wait using gin (labels jsonb_path_ops) with (fastupdate = off)
    where lease_holder is null and answered_at is null and not withheld and labels <> '{}'::jsonb;

-- Waiting runs that any executor may claim, by queue, and those of one host. Runs of an absent host cost the claims of other
-- hosts no scan.
create index execution_claimable_anywhere on execution (namespace, priority, ready_at)
    where ready_at is not null and lease_owner is null and host_label is null;
create index execution_claimable_at_host on execution (host_label, namespace, priority, ready_at)
    where ready_at is not null and lease_owner is null and host_label is not null;
drop index execution_claimable;

-- As before, each half by its index.
create or replace view executor_backlog as
    with waiting as (
        select namespace, ready_at, step_states
        from execution
        where ready_at is not null and lease_owner is null and host_label is null
        union all
        select namespace, ready_at, step_states
        from execution
        where ready_at is not null and lease_owner is null and host_label is not null
    ), ready as (
        select namespace, count(*) as runs, min(ready_at) as oldest,
               sum(length(step_states) - length(replace(step_states, 'r', ''))) as steps
        from waiting
        group by namespace
    ), leased as (
        select namespace, count(*) as runs
        from execution
        where lease_owner is not null
        group by namespace
    )
    select namespace,
           coalesce(ready.runs, 0)                                   as ready_runs,
           coalesce(extract(epoch from now() - ready.oldest), 0)     as oldest_age_seconds,
           coalesce(ready.steps, 0)                                  as ready_steps,
           coalesce(leased.runs, 0)                                  as leased_runs
    from ready full join leased using (namespace);
