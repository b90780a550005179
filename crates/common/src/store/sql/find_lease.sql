-- The wait that a participant has leased.
select id, lease_expires_at, answered_at is not null, free_ms
from wait
where run_id = $1 and lease_epoch = $2 and starts_with(lease_holder, $3 || ' ')
