-- Deletes what a worker offered before, and what is no longer listed.
delete from worker_tool
where (identity = $1 and worker_id = $2) or seen_at <= $3
