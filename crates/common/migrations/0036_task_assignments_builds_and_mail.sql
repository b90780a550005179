-- When an agent for a task without an assignee was last looked for: each in its turn, and again when an agent was registered.
alter table task add column assign_tried_at timestamptz;
drop index task_unassigned;
create index task_unassigned on task (assign_tried_at nulls first, run_id)
    where assignee = '' and ended_at is null and not is_notice and started_at is not null;
-- The clock of the report runs from when an agent has the task.
update task set remind_at = null where assignee = '' and ended_at is null;

-- The commit whose build failed: all that fails of it is one task. Empty for other tasks, and for those of earlier versions.
alter table task add column build_commit text not null default '';
create index task_of_build on task (forge, repo, build_commit) where build_commit <> '';

-- A message whose run was cancelled before it was read, or answered, is a dead letter at once.
alter table mail drop constraint mail_failure_known;
alter table mail add constraint mail_failure_known check (failure in ('', 'unread', 'unanswered', 'cancelled'));
create index task_mail_cancelled on task (run_id) where task_type = 'mail' and outcome = 'cancelled';
