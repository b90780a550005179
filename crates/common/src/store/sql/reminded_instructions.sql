-- What the assignee of a task is handed since a reminder.
select instructions from task where run_id = $1 and reminders > 0
