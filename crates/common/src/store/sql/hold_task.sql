-- The assignee's part is done and it waits for others: the clock stops. Without a text the clock runs again.
update task
set waiting_for = $2,
    remind_at = case when $2 <> '' or reported_at is not null or is_notice or remind_after_s = 0 then null
                     else $3 + make_interval(secs => remind_after_s) end
where run_id = $1 and ended_at is null and started_at is not null and waiting_for <> $2
