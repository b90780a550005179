select revision, digest, parent_digest, reason, body, created_at
from plan
where run_id = $1 and ($2 = 0 or revision = $2)
order by revision desc
limit 1
