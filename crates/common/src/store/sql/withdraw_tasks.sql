-- Notes that a forge withdrew what open tasks ask for. Their runs are cancelled after the commit.
update task
set superseded_by = run_id, withdrawn_by = $2, remind_at = null
where run_id = any($1) and ended_at is null and superseded_by is null
