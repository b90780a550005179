-- The assignee waits for others, which is looked at again after the time of a reminder. None is counted.
update task
set waiting_for = $2,
    remind_at = $3 + make_interval(secs => remind_after_s)
where run_id = $1 and ended_at is null and remind_at is not null
