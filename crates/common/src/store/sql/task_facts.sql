-- What the gate judges a task by.
select action_type, assignee, coalesce(started_at, created_at) as began_at
from task
where run_id = $1
