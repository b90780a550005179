-- Gives a task without an assignee to an agent.
update task
set assignee = $2, instructions = $3
where run_id = $1 and assignee = '' and ended_at is null
returning run_id
