-- Notes what the assignee says that it waits for; the clock of the report goes on.
update task
set waiting_for = $2
where run_id = $1 and ended_at is null
