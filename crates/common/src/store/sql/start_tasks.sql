-- Notes that the runs of tasks were made. From then on the clock of the report runs, if an agent has the task.
update task
set started_at = $2,
    remind_at = case when is_notice or remind_after_s = 0 or assignee = '' then null
                     else $2 + make_interval(secs => remind_after_s) end
where run_id = any($1) and started_at is null
