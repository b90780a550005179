-- The columns of a run's task that feed a verdict.
select action_type, addressee, assignee, forge, happened_at, payload
from task
where run_id = $1
