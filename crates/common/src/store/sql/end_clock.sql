-- The decision that the report stands for is supplied: the clock of the report ends.
update task
set remind_at = null
where run_id = $1 and reported_at is not null and remind_at is not null
