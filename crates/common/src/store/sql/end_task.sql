-- Ends a task, once.
update task
set ended_at = $2, outcome = $3, failure = $4, failure_class = $5, remind_at = null
where run_id = $1 and ended_at is null
returning run_id
