-- The calls that a worker has leased, and how long its leases are good for.
select id, run_id, lease_epoch, lease_expires_at, step_until
from wait
where kind = 'tool' and lease_holder = $1 and answered_at is null and lease_expires_at > $2
