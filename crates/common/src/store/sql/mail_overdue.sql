-- Makes dead letters of messages whose deadline has passed, at most $2. Another planner's are left out.
update mail
set failure = case kind when 'inform' then 'unread' else 'unanswered' end, failed_at = $1
where run_id in (
    select run_id from mail
    where deadline_at <= $1 and failure = ''
      and ((kind = 'inform' and read_at is null) or (kind = 'request' and answered_at is null))
    order by deadline_at
    limit $2
    for update skip locked)
returning run_id, thread_id, in_reply_to, kind, sender, receiver, subject, '' as body, sent_at, deadline_at, read_at,
          answered_at, failure, '' as run_state
