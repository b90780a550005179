-- The run that holds a folder of host $1: the folder itself or one above it ($2), or one below it ($3).
select lock.run_id, lock.path
from workspace_lock as lock
join execution on execution.run_id = lock.run_id and execution.terminal is null
where lock.host = $1
  and lock.held
  and (lock.path = any($2) or starts_with(lock.path, $3))
order by lock.since
limit 1
