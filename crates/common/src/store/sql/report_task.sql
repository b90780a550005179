-- Notes that the assignee reported: the clock of the report ends.
update task
set reported_at = coalesce(reported_at, $2), remind_at = null, waiting_for = ''
where run_id = $1 and ended_at is null
