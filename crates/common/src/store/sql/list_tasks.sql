-- Behind `task_with_run.sql`: the newest first.
where task.namespace = $1
  and ($2 = '' or task.assignee = $2)
  and (cardinality($3::text[]) = 0 or coalesce(execution.state, 'INTAKE') = any($3))
  and ($4::uuid is null or task.run_id < $4)
order by task.run_id desc
limit $5
