-- Makes dead letters of messages whose deadline has passed and of those whose runs were cancelled, at most $2 of each. Another
-- planner's are left out.
with late as (
    select run_id from mail
    where deadline_at <= $1 and failure = ''
      and ((kind = 'inform' and read_at is null) or (kind = 'request' and answered_at is null))
    order by deadline_at
    limit $2
    for update skip locked
),
cancelled as (
    select mail.run_id from task
    join mail on mail.run_id = task.run_id
    where task.task_type = 'mail' and task.outcome = 'cancelled' and mail.failure = ''
      and ((mail.kind = 'inform' and mail.read_at is null) or (mail.kind = 'request' and mail.answered_at is null))
    order by task.run_id
    limit $2
    for update of mail skip locked
)
update mail
set failure = case when deadline_at > $1 then 'cancelled' when kind = 'inform' then 'unread' else 'unanswered' end,
    failed_at = $1
where run_id in (select run_id from late union all select run_id from cancelled)
returning run_id, thread_id, in_reply_to, kind, sender, receiver, subject, '' as body, sent_at, deadline_at, read_at,
          answered_at, failure, '' as run_state
