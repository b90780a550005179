-- The most urgent offered decisions of each assignee's tasks.
select waiting.id, waiting.run_id, waiting.namespace, queue.assignee
from unnest($1::text[]) as queue (assignee)
cross join lateral (
    select wait.id, wait.run_id, wait.namespace, wait.priority, wait.opened_at
    from task
    join wait on wait.run_id = task.run_id
    where task.assignee = queue.assignee
      and task.ended_at is null
      and wait.namespace = any($2)
      and wait.kind = 'decision'
      and wait.lease_holder is null and wait.answered_at is null and not wait.withheld
      and (wait.offered_at is null or wait.offered_at <= $4)
    order by wait.priority desc, wait.opened_at
    limit $3
) as waiting
order by waiting.priority desc, waiting.opened_at
