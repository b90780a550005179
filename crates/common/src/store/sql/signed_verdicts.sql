select sequence, plan_revision, accepted, decided_at, key_id, signature
from verdict
where run_id = $1
order by sequence
