-- The leased decisions of a run whose step's time is over, each with the time for which no participant had leased it.
select id, free_ms
from wait
where run_id = $1 and step_until <= $2 and step_until <= lease_expires_at
  and lease_holder is not null and answered_at is null and not withheld
