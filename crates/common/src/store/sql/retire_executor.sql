delete from executor
where (id = $1 or heartbeat_at < $2)
  and not exists (select from execution where lease_owner = executor.id)
