update worker_tool
set seen_at = greatest(seen_at, $3), live_until = $4
from unnest($1::text[], $2::text[]) as alive (identity, worker_id)
where worker_tool.identity = alive.identity and worker_tool.worker_id = alive.worker_id
