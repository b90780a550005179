-- Deletes at most $2 deliveries that ended, and that were noted before $1.
delete from webhook_delivery
where (webhook, event, subject) in (
    select webhook, event, subject from webhook_delivery
    where state = 'done' and noted_at < $1
    limit $2)
