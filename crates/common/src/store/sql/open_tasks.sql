-- How many tasks of each kind are open, by the states of their runs. A task whose run is not made yet is at its intake.
select task_type, event_type, action_type, state, count(*)
from (
    select task_type, event_type, action_type,
           coalesce((select state from execution where execution.run_id = task.run_id), 'INTAKE') as state
    from task
    where ended_at is null
) as open
group by task_type, event_type, action_type, state
