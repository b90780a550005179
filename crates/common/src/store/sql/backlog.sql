select namespace, ready_runs from executor_backlog
union
select distinct namespace, 0::bigint
from execution
where lease_owner is not null
  and namespace not in (select namespace from executor_backlog)
