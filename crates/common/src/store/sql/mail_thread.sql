-- The newest $2 messages of a thread, the oldest first.
select * from (
    select mail.run_id, mail.thread_id, mail.in_reply_to, mail.kind, mail.sender, mail.receiver, mail.subject,
           mail.body, mail.sent_at, mail.deadline_at, mail.read_at, mail.answered_at, mail.failure,
           coalesce(execution.state, '') as run_state
    from mail
    left join execution on execution.run_id = mail.run_id
    where mail.thread_id = $1
    order by mail.run_id desc
    limit $2
) as newest
order by run_id
