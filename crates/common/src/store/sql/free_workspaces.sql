-- Deletes the locks of runs that ended, and returns at most $1 blocked runs whose folder is free now, the
-- longest wait first.
with ended as (
    delete from workspace_lock
    where not exists (
        select from execution
        where execution.run_id = workspace_lock.run_id and execution.terminal is null)
)
select waiter.run_id
from workspace_lock as waiter
join execution on execution.run_id = waiter.run_id
where not waiter.held
  and execution.state = 'BLOCKED'
  and not exists (
      select from workspace_lock as holder
      join execution as work on work.run_id = holder.run_id and work.terminal is null
      where holder.host = waiter.host
        and holder.held
        and (holder.path = waiter.path
             or starts_with(holder.path, waiter.path || '/')
             or starts_with(waiter.path, holder.path || '/')))
order by waiter.since
limit $1
