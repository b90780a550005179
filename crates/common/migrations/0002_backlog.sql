-- What autoscalers look at: a row a namespace. What is in hand counts too, whether its executor lives or
-- not: scaled by what waits alone, the last executor would be taken away from the work it does, and none
-- would come for runs whose executor died.
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
