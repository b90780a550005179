-- Extends the leases that these participants still hold.
update wait
set lease_expires_at = $4 + make_interval(secs => lease_ms / 1000.0)
from unnest($1::uuid[], $2::bigint[], $3::text[]) as held (run_id, lease_epoch, holder)
where wait.run_id = held.run_id
  and wait.lease_epoch = held.lease_epoch
  and starts_with(wait.lease_holder, held.holder || ' ')
returning wait.run_id, wait.lease_epoch, wait.withheld, wait.lease_expires_at
