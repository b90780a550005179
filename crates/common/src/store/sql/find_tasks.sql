-- Tasks, the newest first, each with the state of its run.
select task.*, execution.state, execution.blocked_from, execution.terminal, execution.updated_at,
       (select count(*) from task as chained where chained.chain_id = task.chain_id) as chain_tasks
from task
left join execution on execution.run_id = task.run_id
where ($1::uuid is null or task.run_id = $1)
  and ($2 = '' or task.namespace = $2)
  and ($3 = '' or task.assignee = $3)
  and (cardinality($4::text[]) = 0 or coalesce(execution.state, 'INTAKE') = any($4))
  and ($5::uuid is null or task.run_id < $5)
order by task.run_id desc
limit $6
