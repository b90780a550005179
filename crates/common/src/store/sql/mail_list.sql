-- A page of messages of an agent, the newest first, without their texts.
-- $1 agent, $2 whether sent, $3 states or none, $4 only unread, $5 thread or null, $6 before this id, $7 at most so many
select mail.run_id, mail.thread_id, mail.in_reply_to, mail.kind, mail.sender, mail.receiver, mail.subject,
       '' as body, mail.sent_at, mail.deadline_at, mail.read_at, mail.answered_at, mail.failure,
       coalesce(execution.state, '') as run_state
from mail
left join execution on execution.run_id = mail.run_id
where (case when $2 then mail.sender else mail.receiver end) = $1
  and (not $4 or mail.read_at is null)
  and ($5::uuid is null or mail.thread_id = $5)
  and ($6::uuid is null or mail.run_id < $6)
  and (cardinality($3::text[]) = 0 or case
        when mail.failure <> '' then 'failed'
        when execution.state = 'DONE' then 'accepted'
        when execution.state in ('FAILED', 'CANCELLED')
             and (mail.answered_at is not null or (mail.kind = 'inform' and mail.read_at is not null)) then 'accepted'
        when execution.state = 'CANCELLED' then 'failed'
        else 'open' end = any ($3))
order by mail.run_id desc
limit $7
