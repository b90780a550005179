-- The metric for autoscalers: one row per namespace. Runs in execution count too, whether or not
-- their executor is alive. Scaled by waiting runs alone, the last executor would be stopped during
-- its work, and none would start for the runs of a dead one.
create or replace view executor_backlog as
    with ready as (
        select namespace, count(*) as runs, min(ready_at) as oldest,
               sum(length(step_states) - length(replace(step_states, 'r', ''))) as steps
        from execution
        where ready_at is not null and lease_owner is null
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
