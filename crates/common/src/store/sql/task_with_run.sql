-- Tasks, each with the state of its run.
select task.*, execution.state, execution.blocked_from, execution.terminal, execution.updated_at,
       (select count(*) from task as chained where chained.chain_id = task.chain_id) as chain_tasks
from task
left join execution on execution.run_id = task.run_id
