-- Locks runs of executors that have sent no heartbeat since they were observed, or that are still
-- not registered. A run on a folder of another host than that of $5 stays with its host.
select execution.run_id
from unnest($1::uuid[], $2::timestamptz[]) as silent (id, heartbeat_at)
join execution on execution.lease_owner = silent.id
left join executor on executor.id = silent.id
where executor.heartbeat_at is not distinct from silent.heartbeat_at
  and execution.run_id <> all($4)
  and (execution.host_label is null
       or execution.host_label = (select own.host_label from executor as own where own.id = $5))
limit $3
for update of execution skip locked
