-- How many tasks of each kind are open.
select task_type, action_type, count(*)
from task
where ended_at is null
group by task_type, action_type
