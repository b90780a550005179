-- What is to be done about tasks, at most $2 of each cause. One statement, because it is sent at rest too.
(
    -- A planner that ended between the task and its run left it to the next one.
    select 'start' as cause, run_id, '' as forge, '' as repo from task
    where started_at is null and created_at <= $3
    order by run_id limit $2
)
union all
(
    select 'supersede', run_id, '', '' from task
    where superseded_by is not null and ended_at is null and started_at is not null
    order by run_id limit $2
)
union all
(
    -- The decision that the report stands for is awaited, or a question that it answers for.
    select 'report', run_id, '', '' from task
    where reported_at is not null and reported_at <= $3 and ended_at is null and started_at is not null
      and exists (select from wait where wait.run_id = task.run_id
                  and wait.kind in ('decision', 'model_decision', 'question', 'confirmation')
                  and wait.answered_at is null)
    order by run_id limit $2
)
union all
(
    -- Of the runs that ended, and not of all open tasks: the index has only those whose task has not ended.
    select 'end', execution.run_id, '', '' from execution
    join task on task.run_id = execution.run_id
    where execution.terminal is not null and not execution.task_ended
      and starts_with(execution.namespace, '_')
      and task.ended_at is null and task.started_at is not null
    order by execution.run_id limit $2
)
union all
(
    select 'remind', run_id, forge, repo from task
    where remind_at is not null and ended_at is null and remind_at <= $1 and assignee <> ''
    order by remind_at limit $2
)
union all
(
    select 'assign', run_id, '', '' from task
    -- Looked for in turn, when an agent was registered since, and from time to time: the file of forges names agents, too.
    -- An agent has its time before its row can be seen, so a look shortly after that time may have missed it.
    where assignee = '' and ended_at is null and not is_notice and started_at is not null and superseded_by is null
      and exists (select from agent)
      and (assign_tried_at is null or assign_tried_at <= $4
           or assign_tried_at <= (select max(updated_at) + interval '5 seconds' from agent))
    order by assign_tried_at nulls first, run_id limit $2
)
union all
(
    select 'escalate', run_id, forge, repo from escalation
    where state = 'due' and next_attempt_at <= $1
    order by next_attempt_at limit $2
)
