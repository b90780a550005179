-- The columns of a run's plans that feed a verdict, as text.
select revision, body, created_at, digest, parent_digest, reason
from plan
where run_id = $1
order by revision
