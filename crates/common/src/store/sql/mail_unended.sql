-- The runs of dead letters that have not ended, at most $1.
select mail.run_id
from mail
join execution on execution.run_id = mail.run_id
where mail.failure <> '' and execution.terminal is null
order by mail.failed_at
limit $1
