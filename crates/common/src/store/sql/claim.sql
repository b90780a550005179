-- Locks runs that an executor could take up, most urgent first. Whoever else claims skips them.
select run_id
from execution
where ready_at is not null
  and lease_owner is null
  and ready_at <= $1
order by priority desc, ready_at
limit $2
for update skip locked
