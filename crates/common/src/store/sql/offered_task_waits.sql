-- The most urgent offered decisions of each assignee's tasks, of runs that carry the labels that it names, and those of the
-- runs that assignees name.
select waiting.id, waiting.run_id, waiting.namespace, waiting.assignee,
       coalesce(waiting.labels, '{}'::jsonb) as labels
from (
    select waiting.*
    from unnest($1::text[], $6::jsonb[]) as queue (assignee, labels)
    cross join lateral (
        select wait.id, wait.run_id, wait.namespace, wait.priority, wait.opened_at, task.assignee, wait.labels
        from task
        join wait on wait.run_id = task.run_id
        where task.assignee = queue.assignee
          and task.ended_at is null
          and wait.namespace = any($2)
          and wait.kind = 'decision'
          and wait.lease_holder is null and wait.answered_at is null and not wait.withheld
          and (wait.offered_at is null or wait.offered_at <= $4)
          and (queue.labels = '{}'::jsonb or wait.labels @> queue.labels)
        order by wait.priority desc, wait.opened_at
        limit $3
    ) as waiting
    union
    select wait.id, wait.run_id, wait.namespace, wait.priority, wait.opened_at, task.assignee, wait.labels
    from wait
    join task on task.run_id = wait.run_id
    where wait.run_id = any($5)
      and task.assignee = any($1)
      and wait.namespace = any($2)
      and wait.kind = 'decision'
      and wait.lease_holder is null and wait.answered_at is null and not wait.withheld
      and (wait.offered_at is null or wait.offered_at <= $4)
) as waiting
order by waiting.priority desc, waiting.opened_at
