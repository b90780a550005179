-- Takes due deliveries of a webhook, until $3.
-- $1 its name, $2 now, $3 when another planner may take them, $4 at most so many
with due as (
    select webhook, event, subject
    from webhook_delivery
    where state = 'due' and next_attempt_at <= $2 and webhook = $1
    order by next_attempt_at
    limit $4
    for update skip locked
)
update webhook_delivery as delivery
set attempts = attempts + 1, next_attempt_at = $3
from due
where delivery.webhook = due.webhook and delivery.event = due.event and delivery.subject = due.subject
returning delivery.webhook, delivery.event, delivery.subject, delivery.run_id, delivery.noted_at,
          delivery.attempts
