-- Notes that the assignee reported. The clock of the report ends, unless the run is blocked: then it ends with the decision
-- that the report stands for, or fails the task.
update task
set reported_at = coalesce(reported_at, $2),
    remind_at = case when exists (select from execution
                                  where execution.run_id = task.run_id and execution.state = 'BLOCKED')
                     then remind_at end,
    waiting_for = ''
where run_id = $1 and ended_at is null
