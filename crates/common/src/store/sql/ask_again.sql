-- Notes that the forge asked for tasks again at $2, by its own time.
update task
set asked_at = $2
where run_id = any($1) and coalesce(asked_at, happened_at) < $2
