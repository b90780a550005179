-- Ends a delivery, or, where $4 is a time, has it sent again then.
update webhook_delivery
set state = case when $4::timestamptz is null then 'done' else 'due' end, next_attempt_at = $4
where webhook = $1 and event = $2 and subject = $3 and state = 'due'
