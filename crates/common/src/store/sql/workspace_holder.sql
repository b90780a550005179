-- The run that holds a folder of host $1: the folder itself or one above it ($2), else one below it, whose paths begin
-- with $3.
(select lock.run_id, lock.path
 from workspace_lock as lock
 join execution on execution.run_id = lock.run_id and execution.terminal is null
 where lock.host = $1
   and lock.held
   and lock.path = any($2)
 order by lock.since
 limit 1)
union all
(select lock.run_id, lock.path
 from workspace_lock as lock
 join execution on execution.run_id = lock.run_id and execution.terminal is null
 where lock.host = $1
   and lock.held
   -- In this order `0` is behind the `/` at the end.
   and lock.path > $3 and lock.path < left($3, -1) || '0'
 order by lock.path
 limit 1)
limit 1
