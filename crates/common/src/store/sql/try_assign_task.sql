-- Notes when an agent for a task was looked for and none was found.
update task set assign_tried_at = $2
where run_id = $1 and assignee = '' and ended_at is null
