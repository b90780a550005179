select namespace, sum(runs)::bigint
from (
    select namespace, count(*) as runs
    from execution
    where ready_at is not null and lease_owner is null and host_label is null
    group by namespace
    union all
    select namespace, count(*) as runs
    from execution
    where ready_at is not null and lease_owner is null and host_label is not null
    group by namespace
    union all
    select distinct namespace, 0
    from execution
    where lease_owner is not null
) as backlog
group by namespace
