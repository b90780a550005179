-- Locks runs whose executor's heartbeat is too old, or that names an executor nobody knows.
select execution.run_id
from execution
left join executor on executor.id = execution.lease_owner
where execution.lease_owner is not null
  and execution.lease_owner <> $3
  and execution.run_id <> all($4)
  and (executor.id is null or executor.heartbeat_at < $1)
limit $2
for update of execution skip locked
