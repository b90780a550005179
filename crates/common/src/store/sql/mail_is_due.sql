-- Whether a deadline has passed, the run of a message was cancelled, or the run of a dead letter has not ended.
select exists (
    select from mail
    where deadline_at <= $1 and failure = ''
      and ((kind = 'inform' and read_at is null) or (kind = 'request' and answered_at is null))
) or exists (
    select from task
    join mail on mail.run_id = task.run_id
    where task.task_type = 'mail' and task.outcome = 'cancelled' and mail.failure = ''
      and ((mail.kind = 'inform' and mail.read_at is null) or (mail.kind = 'request' and mail.answered_at is null))
) or exists (
    select from mail
    join execution on execution.run_id = mail.run_id
    where mail.failure <> '' and execution.terminal is null
)
