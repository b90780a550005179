-- The end of a task is found by what has ended, not by a scan of all open tasks.

-- Whether the end of the run's task is stored. Only runs of tasks have one.
alter table execution add column task_ended boolean not null default false;
update execution set task_ended = true
from task
where task.run_id = execution.run_id and task.ended_at is not null;
-- Runs of tasks that ended, and whose task has not. The namespaces are those of the task types.
create index execution_task_end on execution (run_id)
    where terminal is not null and not task_ended and namespace in ('_mail', '_toolchain');

-- The open tasks of each kind are counted from an index of open tasks.
drop index task_open;
create index task_open on task (task_type, action_type) where ended_at is null;
-- Tasks without an assignee are given to one as soon as an agent answers for them.
create index task_unassigned on task (run_id)
    where assignee = '' and ended_at is null and not is_notice and started_at is not null;
