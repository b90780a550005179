-- Whether a deadline has passed, or the run of a dead letter has not ended.
select exists (
    select from mail
    where deadline_at <= $1 and failure = ''
      and ((kind = 'inform' and read_at is null) or (kind = 'request' and answered_at is null))
) or exists (
    select from mail
    join execution on execution.run_id = mail.run_id
    where mail.failure <> '' and execution.terminal is null
)
