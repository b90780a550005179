-- Counts a reminder of a task that is still due, sets the time of the next one, and puts the reminder before what the
-- assignee is handed. None when another planner was first.
update task
set reminders = reminders + 1,
    remind_at = $2 + make_interval(secs => remind_after_s),
    waiting_for = '',
    instructions = $4 || instructions
where run_id = $1 and ended_at is null and remind_at is not null and remind_at <= $2 and reminders = $3
returning reminders
