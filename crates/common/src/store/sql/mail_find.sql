select mail.run_id, mail.thread_id, mail.in_reply_to, mail.kind, mail.sender, mail.receiver, mail.subject,
       mail.body, mail.sent_at, mail.deadline_at, mail.read_at, mail.answered_at, mail.failure,
       coalesce(execution.state, '') as run_state
from mail
left join execution on execution.run_id = mail.run_id
where mail.run_id = $1
